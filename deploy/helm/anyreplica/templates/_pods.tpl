{{/*
The Deployment of the replicas or of the workers. Arguments: root, component, name, values (the part of the values that
has resources, tmpSize, replicaCount and autoscaling).
*/}}
{{- define "anyreplica.deployment" -}}
{{- $root := .root -}}
{{- $pod := $root.Values.pod -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  labels:
    {{- include "anyreplica.labels" . | nindent 4 }}
spec:
  {{- if eq .values.autoscaling.mode "none" }}
  replicas: {{ .values.replicaCount }}
  {{- end }}
  revisionHistoryLimit: 5
  # A new pod that ends within its first seconds must not replace an old one.
  minReadySeconds: 5
  # New pods start first. An old pod stops only when a new pod is ready.
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: {{ $root.Values.maxSurge }}
      maxUnavailable: 0
  selector:
    matchLabels:
      {{- include "anyreplica.selector" . | nindent 6 }}
  template:
    metadata:
      # Without the version of the chart, so that a new chart alone replaces no pod.
      labels:
        {{- include "anyreplica.selector" . | nindent 8 }}
        {{- with $pod.labels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $pod.annotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      # Without this, a Service named "mcp" in the namespace would set MCP_PORT in each pod, and no replica would start.
      enableServiceLinks: false
      automountServiceAccountToken: false
      {{- with $pod.serviceAccountName }}
      serviceAccountName: {{ . }}
      {{- end }}
      {{- with $root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      {{- with $pod.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      # Longer than DRAIN_SECONDS and SHUTDOWN_GRACE_SECONDS together, or Kubernetes kills the calls in flight.
      # There is no preStop hook: after SIGTERM, the replica itself serves for DRAIN_SECONDS. A sleep in a hook would
      # only delay the drain, and would leave connections open that the drain closes one after the other.
      terminationGracePeriodSeconds: {{ include "anyreplica.terminationSeconds" . }}
      securityContext:
        {{- include "anyreplica.podSecurity" . | nindent 8 }}
      # Only the nodes. A second constraint for the zones would switch both off in a cluster without labels of zones.
      topologySpreadConstraints:
        - topologyKey: kubernetes.io/hostname
          maxSkew: 1
          whenUnsatisfiable: {{ $root.Values.topologySpread.whenUnsatisfiable }}
          # A node that takes no pods does not count.
          nodeTaintsPolicy: Honor
          labelSelector:
            matchLabels:
              {{- include "anyreplica.selector" $ | nindent 14 }}
          # During an update, the pods of the old version do not count.
          matchLabelKeys: [pod-template-hash]
      {{- with $pod.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      # Without these two, Kubernetes would wait for five minutes before it replaces the pods of a lost node.
      tolerations:
        {{- range list "not-ready" "unreachable" }}
        - key: node.kubernetes.io/{{ . }}
          operator: Exists
          effect: NoExecute
          tolerationSeconds: {{ $pod.lostNodeSeconds }}
        {{- end }}
        {{- with $pod.tolerations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      affinity:
        {{- with $pod.affinity }}
        {{- toYaml . | nindent 8 }}
        {{- else }}
        # Different zones, if the nodes have labels of zones.
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: topology.kubernetes.io/zone
                labelSelector:
                  matchLabels:
                    {{- include "anyreplica.selector" . | nindent 20 }}
                matchLabelKeys: [pod-template-hash]
        {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "anyreplica.image" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          {{- if eq .component "worker" }}
          command: ["python", "-m", "server", "worker"]
          {{- end }}
          env:
            {{- if $root.Values.tracing.endpoint }}
            - name: POD_NAME
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
            - name: POD_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            - name: OTEL_RESOURCE_ATTRIBUTES
              value: k8s.pod.name=$(POD_NAME),k8s.namespace.name=$(POD_NAMESPACE)
            {{- end }}
            {{- $paths := include "anyreplica.settings" . | fromYaml }}
            {{- range $variable, $value := $paths }}
            - name: {{ $variable }}
              value: {{ $value | quote }}
            {{- end }}
            {{- with $root.Values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: http
              containerPort: 8000
              protocol: TCP
          # A worker answers the same probes as a replica. The time limits are long, because on a node under full load
          # an answer can take seconds. There, a start can take more than a minute, so it has three: what is killed then
          # would only start again, and make the node busier.
          startupProbe:
            httpGet:
              path: {{ $paths.READINESS_PATH | default "/readyz" }}
              port: http
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 90
          readinessProbe:
            httpGet:
              path: {{ $paths.READINESS_PATH | default "/readyz" }}
              port: http
            periodSeconds: 5
            timeoutSeconds: 5
            failureThreshold: 3
          # Only whether the process is alive. The failure of a dependency would restart all replicas at the same time.
          livenessProbe:
            httpGet:
              path: {{ $paths.LIVENESS_PATH | default "/healthz" }}
              port: http
            periodSeconds: 10
            timeoutSeconds: 10
            failureThreshold: 3
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          securityContext:
            {{- include "anyreplica.containerSecurity" . | nindent 12 }}
          volumeMounts:
            - name: tmp
              mountPath: /tmp
            # Not /run/secrets: some clusters mount tokens of their own below that folder, which needs write access.
            - name: secrets
              mountPath: /etc/anyreplica/secrets
              readOnly: true
      volumes:
        # Files in /tmp count as memory.
        - name: tmp
          emptyDir:
            medium: Memory
            sizeLimit: {{ .values.tmpSize }}
        - name: secrets
          projected:
            defaultMode: 0440
            sources:
              - secret:
                  name: {{ include "anyreplica.keysSecret" $root }}
              {{- range $root.Values.secrets.extraSecrets }}
              - secret:
                  name: {{ . }}
              {{- end }}
              {{- if $root.Values.redis.minimal.enabled }}
              - secret:
                  name: {{ include "anyreplica.fullName" $root }}-redis
                  items:
                    - key: redis_url
                      path: redis_url
                    {{- if $root.Values.worker.enabled }}
                    - key: redis_url
                      path: jobs_url
                    {{- end }}
              {{- end }}
{{- end -}}

{{/*
The HorizontalPodAutoscaler or the ScaledObject of a Deployment, as autoscaling.mode says. Arguments: those of
anyreplica.deployment; metric (of mode "custom", with its target) and query (of mode "keda").
*/}}
{{- define "anyreplica.autoscaler" -}}
{{- $scaling := .values.autoscaling -}}
{{- if eq $scaling.mode "keda" -}}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {{ .name }}
  labels:
    {{- include "anyreplica.labels" . | nindent 4 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ .name }}
  minReplicaCount: {{ $scaling.minReplicas }}
  maxReplicaCount: {{ $scaling.maxReplicas }}
  # Also the time after which a new value counts.
  pollingInterval: 15
  {{- with $scaling.behavior }}
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        {{- toYaml . | nindent 8 }}
  {{- end }}
  triggers:
    - type: prometheus
      metricType: AverageValue
      metadata:
        serverAddress: {{ $scaling.prometheus }}
        query: {{ .query }}
        threshold: {{ .target | quote }}
{{- else -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ .name }}
  labels:
    {{- include "anyreplica.labels" . | nindent 4 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ .name }}
  minReplicas: {{ $scaling.minReplicas }}
  maxReplicas: {{ $scaling.maxReplicas }}
  {{- with $scaling.behavior }}
  behavior:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  metrics:
    {{- if eq $scaling.mode "cpu" }}
    # An amount, not a share of the requested CPU time, so that a change of the request does not change the scaling.
    - type: Resource
      resource:
        name: cpu
        target:
          type: AverageValue
          averageValue: {{ $scaling.cpu }}
    {{- else }}
    {{- toYaml .metrics | nindent 4 }}
    {{- end }}
{{- end -}}
{{- end -}}

{{/* The PodDisruptionBudget of a Deployment. Arguments: root, component, name. */}}
{{- define "anyreplica.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  labels:
    {{- include "anyreplica.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ .root.Values.podDisruptionBudget.maxUnavailable }}
  # A pod that is not ready serves nobody and does not block the drain of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "anyreplica.selector" . | nindent 6 }}
{{- end -}}
