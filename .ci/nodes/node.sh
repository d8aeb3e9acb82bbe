#!/usr/bin/env bash
# Make this virtual machine a node of the cluster: node.sh NUMBER NETWORK. `.ci/cluster` runs it on the machine.
set -euo pipefail
number=$1 net=$2
export PATH=/opt/node:$PATH

# The kit's machines run a Docker engine. The node does not need it, and its rules drop packets of pods.
pkill -x dockerd || true
while pgrep -x dockerd >/dev/null; do sleep 0.2; done
iptables --policy FORWARD ACCEPT
for table in filter nat; do iptables --table $table --flush; iptables --table $table --delete-chain; done
modprobe --quiet --all xt_comment xt_statistic xt_tcpudp xt_multiport xt_REDIRECT ipt_REJECT xt_limit xt_nfacct || true
sysctl -qw net.bridge.bridge-nf-call-iptables=1 net.ipv4.ip_forward=1
mount --make-rshared /

ip route replace 10.96.0.0/16 via "$net.1" # so that the kernel has a route before kube-proxy changes the address
for other in 1 2 3 4 5 6 7 8 9; do
  if [ "$other" != "$number" ]; then ip route replace "10.244.$other.0/24" via "$net.1$other"; fi
done

mkdir -p /etc/cni/net.d /etc/containerd /opt/cni
ln -sfn /opt/node /opt/cni/bin
cat >/etc/cni/net.d/10-pods.conflist <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.$number.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
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
clusterCIDR: 10.244.0.0/16
clientConnection: {kubeconfig: /etc/kubernetes/proxy.kubeconfig}
conntrack: {maxPerCore: 0}
END

# start NAME COMMAND: run a program until the machine ends.
start() {
  local name=$1
  shift
  setsid "$@" </dev/null >>"/var/log/$name.log" 2>&1 &
}
start containerd containerd
until ctr version >/dev/null 2>&1; do sleep 0.2; done
start kubelet kubelet --config=/etc/kubernetes/kubelet.yaml --kubeconfig=/etc/kubernetes/kubelet.kubeconfig \
  --hostname-override="node$number" --node-ip="$net.1$number"
start kube-proxy kube-proxy --config=/etc/kubernetes/proxy.yaml
