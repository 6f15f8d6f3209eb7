{{- /* Refuses values with which the manifests would be valid and the pods or their monitoring would not work. */}}
{{- define "prefold.check" -}}
{{- $values := .Values }}
{{- if eq (int64 .Values.port) (int64 .Values.metricsPort) }}
{{- fail (printf "port and metricsPort are both %d; they must differ" (int64 .Values.port)) }}
{{- end }}
{{- /* The chart looks for flags by their own names. */}}
{{- range $alias, $value := dict
    "host" "hostname"
    "ssl-certfile" "tlsSecret"
    "ssl-keyfile" "tlsSecret"
    "uds" "hostname and port, because the probes need a port"
    "max-model-len" "settings.max-input-length"
    "max-num-batched-tokens" "settings.max-batch-tokens"
    "max-num-seqs" "settings.max-batch-requests"
    "hf-api-token" "existingSecret" }}
{{- if hasKey $values.settings $alias }}
{{- fail (printf "settings.%s is an alias; the chart needs the name of the flag itself: use %s" $alias $value) }}
{{- end }}
{{- end }}
{{- if include "prefold.flag" (list . "uds-path") }}
{{- fail "uds-path: with a Unix socket the server has no port for the probes and the service; remove it" }}
{{- end }}
{{- if include "prefold.flag" (list . "protect-metrics") }}
{{- if .Values.podMonitor.enabled }}
{{- if not (or .Values.existingSecret .Values.podMonitor.authorization) }}
{{- fail "protect-metrics: podMonitor needs an API key; set existingSecret or podMonitor.authorization" }}
{{- end }}
{{- else if .Values.scrapeAnnotations }}
{{- fail "protect-metrics: a Prometheus that finds pods by annotations sends no API key; set scrapeAnnotations to false, or podMonitor.enabled" }}
{{- end }}
{{- end }}
{{- with .Values.autoscaling }}
{{- if and .keda.enabled (not .enabled) }}
{{- fail "autoscaling.keda.enabled has no effect without autoscaling.enabled; set both" }}
{{- end }}
{{- if and .enabled (gt (int64 .minReplicas) (int64 .maxReplicas)) }}
{{- fail (printf "autoscaling.minReplicas (%d) is greater than autoscaling.maxReplicas (%d)" (int64 .minReplicas) (int64 .maxReplicas)) }}
{{- end }}
{{- end }}
{{- if .Values.existingSecret }}
{{- range .Values.extraEnv }}
{{- if has .name (list "API_KEY" "PREFOLD_API_KEY" "HF_TOKEN" "PREFOLD_HF_TOKEN") }}
{{- fail (printf "extraEnv sets %s, which existingSecret sets too; remove one of them" .name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Not empty if `settings` or `extraArgs` set the flag to anything but false: (list . NAME). */}}
{{- define "prefold.flag" -}}
{{- $values := (first .).Values }}
{{- $name := last . }}
{{- if and (hasKey $values.settings $name) (ne (get $values.settings $name | toString) "false") }}set{{ end }}
{{- range $values.extraArgs }}
{{- if or (eq . (printf "--%s" $name)) (hasPrefix (printf "--%s=" $name) .) }}set{{ end }}
{{- end }}
{{- end }}
