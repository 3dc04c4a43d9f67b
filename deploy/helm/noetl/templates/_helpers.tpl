{{/*
Only `template` is used, not `include`: these are standard Go templates with Sprig, so other renderers can read them.
*/}}
{{- define "noetl.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}

{{- define "noetl.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- end -}}

{{- define "noetl.secret" -}}
{{ .Values.secret.existing | default (printf "%s-secrets" (.Release.Name | trunc 40 | trimSuffix "-")) }}
{{- end -}}

{{/* What every pod may do: nothing beyond its own process. */}}
{{- define "noetl.podSecurity" -}}
{ runAsNonRoot: true, runAsUser: 10001, runAsGroup: 10001, fsGroup: 10001, seccompProfile: { type: RuntimeDefault } }
{{- end -}}

{{- define "noetl.containerSecurity" -}}
{ readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: { drop: [ALL] } }
{{- end -}}

{{/* Settings of NoETL as variables of a container. */}}
{{- define "noetl.settings" -}}
{{- range $name, $value := . }}
            - name: NOETL_{{ $name | upper }}
              value: {{ $value | toString | quote }}
{{- end }}
{{- end -}}
