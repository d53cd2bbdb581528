"""Which fields the kinds have that deploy/k8s uses, by the API's documentation (kubernetes.io/docs/reference/kubernetes-api), for current versions: what is
not here is refused, so that a misspelt field, which `kubectl apply` may drop with a warning or not at all, fails a test. Only
what Meridian's manifests may reasonably say is listed; a new field is added here with the manifest that uses it.

Notation: a dict is an object, "name!" a member it must have, {"*": T} any names, [T] a list, a tuple of strings the values allowed; "str", "int",
"bool", "quantity" (512Mi, "1"), "port" (number or name), "part" (number or percentage), "any"."""

LABELS = {"*": "str"}
META = {"name": "str", "namespace": "str", "labels": LABELS, "annotations": LABELS}
NAMED = {"name!": "str", **{k: v for k, v in META.items() if k != "name"}}
EXPRESSION = {"key!": "str", "operator!": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"), "values": ["str"]}
SELECTOR = {"matchLabels": LABELS, "matchExpressions": [EXPRESSION]}
PROTOCOL = ("TCP", "UDP", "SCTP")

REF = {"name!": "str", "optional": "bool"}
KEY_REF = {"name!": "str", "key!": "str", "optional": "bool"}
ENV = {"name!": "str", "value": "str", "valueFrom": {
    "fieldRef": {"fieldPath!": "str", "apiVersion": "str"}, "secretKeyRef": KEY_REF, "configMapKeyRef": KEY_REF,
    "resourceFieldRef": {"resource!": "str", "containerName": "str", "divisor": "quantity"}}}
PROBE = {"httpGet": {"path": "str", "port!": "port", "scheme": ("HTTP", "HTTPS"), "host": "str", "httpHeaders": [{"name!": "str", "value!": "str"}]},
         "exec": {"command": ["str"]}, "tcpSocket": {"port!": "port", "host": "str"}, "initialDelaySeconds": "int", "periodSeconds": "int",
         "timeoutSeconds": "int", "successThreshold": "int", "failureThreshold": "int", "terminationGracePeriodSeconds": "int"}
SECCOMP = {"type!": ("RuntimeDefault", "Unconfined", "Localhost"), "localhostProfile": "str"}
CONTAINER_SECURITY = {"runAsUser": "int", "runAsGroup": "int", "runAsNonRoot": "bool", "allowPrivilegeEscalation": "bool", "readOnlyRootFilesystem": "bool",
                      "privileged": "bool", "capabilities": {"add": ["str"], "drop": ["str"]}, "seccompProfile": SECCOMP}
CONTAINER = {"name!": "str", "image": "str", "imagePullPolicy": ("Always", "IfNotPresent", "Never"), "command": ["str"], "args": ["str"], "workingDir": "str",
             "env": [ENV], "envFrom": [{"configMapRef": REF, "secretRef": REF, "prefix": "str"}],
             "ports": [{"name": "str", "containerPort!": "int", "protocol": PROTOCOL}],
             "startupProbe": PROBE, "livenessProbe": PROBE, "readinessProbe": PROBE, "securityContext": CONTAINER_SECURITY,
             "resources": {"requests": {"*": "quantity"}, "limits": {"*": "quantity"}},
             "volumeMounts": [{"name!": "str", "mountPath!": "str", "readOnly": "bool", "subPath": "str", "mountPropagation": ("None", "HostToContainer", "Bidirectional")}],
             "lifecycle": {"preStop": {"exec": {"command": ["str"]}}}, "terminationMessagePath": "str", "terminationMessagePolicy": ("File", "FallbackToLogsOnError")}
ITEMS = [{"key!": "str", "path!": "str", "mode": "int"}]
SOURCE = {"serviceAccountToken": {"path!": "str", "audience": "str", "expirationSeconds": "int"}, "configMap": {"name!": "str", "items": ITEMS, "optional": "bool"},
          "secret": {"name!": "str", "items": ITEMS, "optional": "bool"}}
VOLUME = {"name!": "str", "secret": {"secretName!": "str", "defaultMode": "int", "items": ITEMS, "optional": "bool"},
          "configMap": {"name!": "str", "defaultMode": "int", "items": ITEMS, "optional": "bool"},
          "projected": {"sources!": [SOURCE], "defaultMode": "int"},
          "emptyDir": {"medium": ("", "Memory"), "sizeLimit": "quantity"},
          "hostPath": {"path!": "str", "type": ("", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice")},
          "persistentVolumeClaim": {"claimName!": "str", "readOnly": "bool"}}
TERM = {"matchExpressions": [EXPRESSION], "matchFields": [EXPRESSION]}
POD_TERM = {"topologyKey!": "str", "labelSelector": SELECTOR, "namespaces": ["str"]}
POD = {"containers!": [CONTAINER], "initContainers": [CONTAINER], "volumes": [VOLUME], "serviceAccountName": "str", "automountServiceAccountToken": "bool",
       "enableServiceLinks": "bool", "priorityClassName": "str", "terminationGracePeriodSeconds": "int", "hostPID": "bool", "hostNetwork": "bool", "hostIPC": "bool",
       "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"), "hostname": "str", "subdomain": "str", "nodeSelector": LABELS,
       "restartPolicy": ("Always", "OnFailure", "Never"),
       "tolerations": [{"key": "str", "operator": ("Exists", "Equal"), "value": "str", "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute"), "tolerationSeconds": "int"}],
       "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms!": [TERM]},
                                     "preferredDuringSchedulingIgnoredDuringExecution": [{"weight!": "int", "preference!": TERM}]},
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM],
                                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight!": "int", "podAffinityTerm!": POD_TERM}]}},
       "topologySpreadConstraints": [{"maxSkew!": "int", "topologyKey!": "str", "whenUnsatisfiable!": ("DoNotSchedule", "ScheduleAnyway"), "labelSelector": SELECTOR}],
       "os": {"name!": ("linux", "windows")},
       "securityContext": {"runAsUser": "int", "runAsGroup": "int", "runAsNonRoot": "bool", "fsGroup": "int", "fsGroupChangePolicy": ("OnRootMismatch", "Always"),
                           "supplementalGroups": ["int"], "seccompProfile": SECCOMP}}
TEMPLATE = {"metadata": META, "spec!": POD}
CLAIM = {"accessModes": [("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")], "storageClassName": "str", "volumeMode": ("Filesystem", "Block"),
         "resources": {"requests": {"*": "quantity"}, "limits": {"*": "quantity"}}, "selector": SELECTOR}
ROLLING = {"maxUnavailable": "part", "maxSurge": "part"}
PEER = {"podSelector": SELECTOR, "namespaceSelector": SELECTOR, "ipBlock": {"cidr!": "str", "except": ["str"]}}
NET_PORT = {"port": "port", "endPort": "int", "protocol": PROTOCOL}
RULE = {"apiGroups": ["str"], "resources": ["str"], "resourceNames": ["str"], "verbs!": ["str"]}
SUBJECT = {"kind!": "str", "name!": "str", "namespace": "str", "apiGroup": "str"}
ROLE_REF = {"apiGroup!": "str", "kind!": "str", "name!": "str"}
WEBHOOK = {"name!": "str", "admissionReviewVersions!": ["str"], "sideEffects!": ("None", "NoneOnDryRun"), "failurePolicy": ("Ignore", "Fail"), "timeoutSeconds": "int",
           "matchPolicy": ("Exact", "Equivalent"), "reinvocationPolicy": ("Never", "IfNeeded"), "namespaceSelector": SELECTOR, "objectSelector": SELECTOR,
           "rules": [{"apiGroups!": ["str"], "apiVersions!": ["str"], "operations!": [("CREATE", "UPDATE", "DELETE", "CONNECT", "*")], "resources!": ["str"],
                      "scope": ("Namespaced", "Cluster", "*")}],
           "clientConfig!": {"caBundle": "str", "url": "str", "service": {"name!": "str", "namespace!": "str", "path": "str", "port": "int"}}}
SECRET_KEY = {"name!": "str", "key!": "str"}
ENDPOINT = {"port": "str", "path": "str", "interval": "str", "scheme": ("http", "https", "HTTP", "HTTPS"), "authorization": {"type": "str", "credentials": SECRET_KEY},
            "tlsConfig": {"serverName": "str", "insecureSkipVerify": "bool", "ca": {"secret": SECRET_KEY, "configMap": SECRET_KEY}},
            "relabelings": [{"sourceLabels": ["str"], "targetLabel": "str", "regex": "str", "replacement": "str", "action": "str"}]}

KINDS = {
    "v1 Namespace": {"metadata!": NAMED},
    "v1 ServiceAccount": {"metadata!": NAMED, "automountServiceAccountToken": "bool"},
    "v1 ConfigMap": {"metadata!": NAMED, "data": {"*": "str"}},
    "v1 Service": {"metadata!": NAMED, "spec!": {
        "clusterIP": "str", "type": ("ClusterIP", "NodePort", "LoadBalancer"), "publishNotReadyAddresses": "bool", "selector": LABELS,
        "ports": [{"name": "str", "port!": "int", "targetPort": "port", "protocol": PROTOCOL, "appProtocol": "str"}]}},
    "apps/v1 DaemonSet": {"metadata!": NAMED, "spec!": {
        "selector!": SELECTOR, "template!": TEMPLATE, "minReadySeconds": "int", "revisionHistoryLimit": "int",
        "updateStrategy": {"type": ("RollingUpdate", "OnDelete"), "rollingUpdate": ROLLING}}},
    "apps/v1 StatefulSet": {"metadata!": NAMED, "spec!": {
        "selector!": SELECTOR, "template!": TEMPLATE, "serviceName!": "str", "replicas": "int", "podManagementPolicy": ("OrderedReady", "Parallel"),
        "updateStrategy": {"type": ("RollingUpdate", "OnDelete"), "rollingUpdate": {"partition": "int"}},
        "volumeClaimTemplates": [{"apiVersion": "str", "kind": "str", "metadata": META, "spec!": CLAIM}]}},
    "apps/v1 Deployment": {"metadata!": NAMED, "spec!": {
        "selector!": SELECTOR, "template!": TEMPLATE, "replicas": "int", "minReadySeconds": "int", "strategy": {"type": ("RollingUpdate", "Recreate"), "rollingUpdate": ROLLING}}},
    "batch/v1 Job": {"metadata!": NAMED, "spec!": {
        "template!": TEMPLATE, "backoffLimit": "int", "completions": "int", "parallelism": "int", "completionMode": ("NonIndexed", "Indexed"),
        "activeDeadlineSeconds": "int", "ttlSecondsAfterFinished": "int"}},
    "policy/v1 PodDisruptionBudget": {"metadata!": NAMED, "spec!": {"selector!": SELECTOR, "maxUnavailable": "part", "minAvailable": "part"}},
    "scheduling.k8s.io/v1 PriorityClass": {"metadata!": NAMED, "value!": "int", "globalDefault": "bool", "description": "str", "preemptionPolicy": ("Never", "PreemptLowerPriority")},
    "storage.k8s.io/v1 StorageClass": {"metadata!": NAMED, "provisioner!": "str", "parameters": {"*": "str"}, "reclaimPolicy": ("Delete", "Retain"),
                                       "allowVolumeExpansion": "bool", "volumeBindingMode": ("Immediate", "WaitForFirstConsumer"), "mountOptions": ["str"]},
    "networking.k8s.io/v1 NetworkPolicy": {"metadata!": NAMED, "spec!": {
        "podSelector!": SELECTOR, "policyTypes": [("Ingress", "Egress")], "ingress": [{"from": [PEER], "ports": [NET_PORT]}], "egress": [{"to": [PEER], "ports": [NET_PORT]}]}},
    "networking.k8s.io/v1 Ingress": {"metadata!": NAMED, "spec!": {
        "ingressClassName": "str", "tls": [{"hosts": ["str"], "secretName": "str"}],
        "rules": [{"host": "str", "http": {"paths!": [{"path": "str", "pathType!": ("Exact", "Prefix", "ImplementationSpecific"),
                                                         "backend!": {"service": {"name!": "str", "port": {"name": "str", "number": "int"}}}}]}}]}},
    "rbac.authorization.k8s.io/v1 Role": {"metadata!": NAMED, "rules!": [RULE]},
    "rbac.authorization.k8s.io/v1 ClusterRole": {"metadata!": NAMED, "rules!": [RULE]},
    "rbac.authorization.k8s.io/v1 RoleBinding": {"metadata!": NAMED, "roleRef!": ROLE_REF, "subjects": [SUBJECT]},
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding": {"metadata!": NAMED, "roleRef!": ROLE_REF, "subjects": [SUBJECT]},
    "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration": {"metadata!": NAMED, "webhooks": [WEBHOOK]},
    "monitoring.coreos.com/v1 PodMonitor": {"metadata!": NAMED, "spec!": {"selector!": SELECTOR, "podMetricsEndpoints!": [ENDPOINT]}},
}
KINDS["policy/v1beta1 PodDisruptionBudget"] = KINDS["policy/v1 PodDisruptionBudget"]
