{{- /* "true" where the store is PostgreSQL, and replicas may be many. */ -}}
{{- define "graphsubd.postgres" -}}
{{- if dig "store" "postgres" "" (.Values.config | default dict) -}}true{{- end -}}
{{- end -}}

{{- define "graphsubd.replicas" -}}
{{- $postgres := include "graphsubd.postgres" . -}}
{{- if kindIs "invalid" .Values.replicas -}}
{{- ternary 2 1 (eq $postgres "true") -}}
{{- else -}}
{{- if and (not $postgres) (gt (int .Values.replicas) 1) -}}
{{- fail "replicas: a SQLite store serves one replica; give config.store.postgres for more" -}}
{{- end -}}
{{- int .Values.replicas -}}
{{- end -}}
{{- end -}}

{{- /* The configuration that graphsubd reads: what the user wrote, and what follows from the cluster. */ -}}
{{- define "graphsubd.config" -}}
{{- $cluster := dict "lease" (dict "kubernetes" (dict "namespace" .Release.Namespace "name" (include "graphsubd.fullname" .))) -}}
{{- if not (include "graphsubd.postgres" .) -}}
{{- $_ := set $cluster "store" (dict "sqlite" (dict "path" "/var/lib/graphsubd/graphsubd.db")) -}}
{{- end -}}
{{- toYaml (mustMergeOverwrite $cluster (deepCopy .Values.config)) -}}
{{- end -}}

{{- /* Changes only with what a running process cannot take over, so that other changes restart nothing. */ -}}
{{- define "graphsubd.restart" -}}
{{- $fixed := omit (include "graphsubd.config" . | fromYaml) "apps" "tenants" "subscriptions" "sinks" "include" "admin" -}}
{{- toYaml $fixed | sha256sum -}}
{{- end -}}
