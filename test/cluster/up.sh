#!/usr/bin/env bash
# Brings up a cluster of one node on this machine, as root, and a registry on loopback. What is up already stays.
set -euo pipefail
. "$(dirname "$0")/env.sh"
state=$CLUSTER_STATE
mkdir -p "$state"/{log,pid,cni,kubelet,etcd,containerd,registry} "$run"

start() { # name command...
	local name=$1
	shift
	if running "$name" >/dev/null; then return; fi
	setsid nohup "$@" >"$state/log/$name.log" 2>&1 </dev/null &
	echo $! >"$state/pid/$name"
}

await() { # name seconds command...
	local name=$1 deadline=$((SECONDS + $2))
	shift 2
	until "$@" >/dev/null 2>&1; do
		if [ $SECONDS -ge $deadline ]; then
			echo "$name does not come up:" >&2
			tail -n 20 "$state/log/$name.log" >&2
			exit 1
		fi
		sleep 0.1
	done
	printf '%4d s  %s\n' "$SECONDS" "$name"
}

# The bridge of the pods has the node's address, so that pods and processes of this machine reach each other.
sysctl -qw net.ipv4.ip_forward=1
if ! ip link show cni0 >/dev/null 2>&1; then
	ip link add cni0 type bridge
	ip addr add "$node_ip/24" dev cni0
	ip link set cni0 up
fi
cat >"$state/cni/10-bridge.conflist" <<K
{"cniVersion": "0.4.0", "name": "fiber-cluster", "plugins": [
 {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$run/cni-ipam", "ranges": [[{"subnet": "$pod_cidr", "gateway": "$node_ip"}]],
           "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "firewall", "backend": "iptables"},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
K
[ -s "$state/admin.kubeconfig" ] || "$here/certs.sh"

# restrict_oom_score_adj: a container's process could not start where CAP_SYS_RESOURCE is missing.
cat >"$state/containerd.toml" <<K
version = 2
root = "$state/containerd"
state = "$run/containerd"
[grpc]
  address = "$run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$state/cni"
K
cat >"$state/registry.yml" <<K
version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: "$state/registry"}, delete: {enabled: true}}
http: {addr: "$registry"}
K
etcd=http://127.0.0.1:12379 peers=http://127.0.0.1:12380
start etcd etcd --data-dir "$state/etcd" --listen-client-urls $etcd --advertise-client-urls $etcd \
	--listen-peer-urls $peers --initial-advertise-peer-urls $peers --initial-cluster default=$peers \
	--unsafe-no-fsync --log-level warn
start containerd containerd -c "$state/containerd.toml"
start registry docker-registry serve "$state/registry.yml"
start kube-apiserver kube-apiserver --etcd-servers=$etcd --secure-port=6443 --bind-address=0.0.0.0 \
	--advertise-address=$node_ip --service-cluster-ip-range=$service_cidr --authorization-mode=Node,RBAC \
	--enable-admission-plugins=NodeRestriction --client-ca-file="$pki/ca.crt" \
	--tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
	--kubelet-client-certificate="$pki/apiserver-kubelet.crt" --kubelet-client-key="$pki/apiserver-kubelet.key" \
	--kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
	--service-account-issuer=https://kubernetes.default.svc.cluster.local \
	--service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key"
await containerd 20 ctr version
await registry 20 curl -fs "http://$registry/v2/"
await kube-apiserver 60 kubectl get --raw /readyz

as() { echo "--kubeconfig=$state/$1.kubeconfig --authentication-kubeconfig=$state/$1.kubeconfig --bind-address=127.0.0.1"; }
# A claim is bound within a second and not fifteen.
start kube-controller-manager kube-controller-manager $(as controller-manager) --leader-elect=false \
	--authorization-kubeconfig="$state/controller-manager.kubeconfig" --use-service-account-credentials=true \
	--root-ca-file="$pki/ca.crt" --service-account-private-key-file="$pki/sa.key" \
	--cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" --pvclaimbinder-sync-period=1s
start kube-scheduler kube-scheduler $(as scheduler) --authorization-kubeconfig="$state/scheduler.kubeconfig" --leader-elect=false
"$here/image.sh" "$CLUSTER_BIN/pause" localhost/pause:1 | ctr images import - >/dev/null

# cgroup v1 is taken, and pods are not evicted from a small disk.
cat >"$state/kubelet.yaml" <<K
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://$run/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
tlsCertFile: $pki/kubelet-server.crt
tlsPrivateKeyFile: $pki/kubelet-server.key
clusterDomain: cluster.local
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, imagefs.available: 1%, imagefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
maxPods: 200
K
start kubelet kubelet --config="$state/kubelet.yaml" --kubeconfig="$state/kubelet.kubeconfig" \
	--hostname-override=$node --node-ip=$node_ip --root-dir="$state/kubelet"
cat >"$state/proxy.yaml" <<K
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: $pod_cidr
hostnameOverride: $node
clientConnection: {kubeconfig: $state/proxy.kubeconfig}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
K
start kube-proxy kube-proxy --config="$state/proxy.yaml"

ready() { [ "$(kubectl get node $node -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]; }
await kubelet 90 ready
await kube-controller-manager 30 kubectl get serviceaccount default
