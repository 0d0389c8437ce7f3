{{- /* The pod, the same for both kinds of store. */ -}}
{{- define "graphsubd.pod" -}}
{{- $name := include "graphsubd.fullname" . -}}
{{- $postgres := include "graphsubd.postgres" . -}}
metadata:
  labels:
    {{- include "graphsubd.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    graphsubd.io/restart: {{ include "graphsubd.restart" . }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ $name }}
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  terminationGracePeriodSeconds: {{ add .Values.drainSeconds 30 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: graphsubd
      {{- with .Values.image }}
      image: {{ if .digest }}{{ printf "%s@%s" .repository .digest }}{{ else }}{{ printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}{{ end }}
      imagePullPolicy: {{ .pullPolicy }}
      {{- end }}
      args:
        - serve
        - --config=/etc/graphsubd/config/graphsubd.yaml
        {{- range .Values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      {{- with .Values.extraEnv }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: public, containerPort: 8080}
        - {name: admin, containerPort: 8081}
        - {name: telemetry, containerPort: 9090}
      # None looks at Graph or the API server. An unready pod would fail Graph's handshakes.
      startupProbe: # half an hour, since a new version may have a large store to migrate
        httpGet: {path: /livez, port: telemetry}
        periodSeconds: 1
        failureThreshold: 1800
      livenessProbe:
        httpGet: {path: /livez, port: telemetry}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: telemetry}
        periodSeconds: 2
        timeoutSeconds: 5
      {{- if .Values.drainSeconds }}
      lifecycle:
        preStop:
          sleep: {seconds: {{ .Values.drainSeconds }}}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/graphsubd/config, readOnly: true}
        {{- range $folder, $secret := .Values.secrets }}
        - {name: {{ printf "secret-%s" $folder }}, mountPath: {{ printf "/etc/graphsubd/%s" $folder }}, readOnly: true}
        {{- end }}
        {{- if not $postgres }}
        - {name: data, mountPath: /var/lib/graphsubd}
        {{- end }}
        - {name: tmp, mountPath: /tmp}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ $name }}}
    {{- range $folder, $secret := .Values.secrets }}
    - name: secret-{{ $folder }}
      secret: {secretName: {{ $secret | quote }}, defaultMode: 0440}
    {{- end }}
    - name: tmp
      emptyDir: {}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "graphsubd.selector" . | nindent 10 }}
    {{- end }}
{{- end -}}
