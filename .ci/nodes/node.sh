#!/usr/bin/env bash
# Make this virtual machine a node of the cluster: node.sh NUMBER FAMILY ID. `.ci/cluster` runs it on the machine.
set -euo pipefail
number=$1 family=$2 id=$3
# shellcheck source=.ci/nodes/addresses
. "$(dirname "$0")/addresses"
export PATH=/opt/node:$PATH
[ ! -e /run/node-started ] || exit 0
: >/run/node-started

# The kit's machines run a Docker engine. The node does not need it, and its rules drop packets of pods.
pkill -KILL -x 'dockerd|containerd' || true
while pgrep -x 'dockerd|containerd' >/dev/null; do sleep 0.2; done
[ -e /dev/kmsg ] || ln -s /dev/null /dev/kmsg
# kubelet wants to know the speed of the CPU, which this kernel does not tell.
if ! grep -q 'cpu MHz' /proc/cpuinfo; then
  { grep -v '^$' /proc/cpuinfo; printf 'cpu MHz\t\t: 1000.000\nphysical id\t: 0\ncore id\t\t: 0\n\n'; } >/run/cpuinfo
  mount --bind /run/cpuinfo /proc/cpuinfo
fi
ulimit -n 1048576 # of containers, too
for rules in iptables ip6tables; do
  $rules --policy FORWARD ACCEPT
  for table in filter nat; do $rules --table $table --flush; $rules --table $table --delete-chain; done
done
modprobe --quiet --all xt_comment xt_statistic xt_tcpudp xt_multiport xt_REDIRECT ipt_REJECT xt_limit xt_nfacct || true
sysctl -qw net.bridge.bridge-nf-call-iptables=1 net.ipv4.ip_forward=1
if [ "$family" = 6 ]; then
  sysctl -qw net.bridge.bridge-nf-call-ip6tables=1 net.ipv6.conf.all.forwarding=1
  ip address replace "$machine$number/$node_mask" dev eth0 nodad
fi
mount --make-rshared /

ip route replace "$services" via "$machine" # so that the kernel has a route before kube-proxy changes the address
for other in 1 2 3 4 5 6 7 8 9; do
  if [ "$other" != "$number" ]; then ip route replace "$(pods_of "$other")" via "$machine$other"; fi
done

mkdir -p /etc/cni/net.d /etc/containerd /opt/cni
ln -sfn /opt/node /opt/cni/bin
cat >/etc/cni/net.d/10-pods.conflist <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$(pods_of "$number")"}]], "routes": [{"dst": "$all"}]}}]}
END
cat >/etc/containerd/config.toml <<END
version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = 'docker.io/node/pause:1'
END
cat >/etc/kubernetes/proxy.yaml <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
hostnameOverride: node$number
clusterCIDR: $pods
clientConnection: {kubeconfig: /etc/kubernetes/proxy.kubeconfig}
conntrack: {maxPerCore: 0}
END

# start NAME COMMAND: run a program until the machine ends. It starts again if it ends, as a service does.
start() {
  local name=$1
  shift
  # shellcheck disable=SC2016  # the inner shell expands it
  setsid bash -c 'while :; do "$@"; echo "ended with $?"; sleep 2; done' - "$@" </dev/null >>"/var/log/$name.log" 2>&1 &
}
start containerd containerd
for _ in {1..300}; do
  if ctr version >/dev/null 2>&1; then break; fi
  sleep 0.2
done
ctr version >/dev/null
start kubelet kubelet --config=/etc/kubernetes/kubelet.yaml --kubeconfig=/etc/kubernetes/kubelet.kubeconfig \
  --hostname-override="node$number" --node-ip="$machine$number"
start kube-proxy kube-proxy --config=/etc/kubernetes/proxy.yaml
