{{- define "prefold.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "prefold.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "prefold.labels" -}}
{{ include "prefold.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* JSON strings, numbers and lists are valid TOML. Helm reads integers as floats; toJson writes them as integers again. */}}
{{- define "prefold.config" -}}
{{- with .Values.model }}
model-id = {{ . | toJson }}
{{- end }}
{{- range $key, $value := .Values.settings }}
{{ $key }} = {{ $value | toJson }}
{{- end }}
{{- end }}
