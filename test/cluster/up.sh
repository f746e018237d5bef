#!/usr/bin/env bash
# Brings up a cluster of one node on this machine, as root, and a registry on loopback. What is up already stays.
set -euo pipefail
. "$(dirname "$0")/env.sh"
. "$here/node.sh"
mkdir -p "$state"/{etcd,registry}

# The bridge of the pods has the node's address, so that pods and processes of this machine reach each other. It has a
# link-layer address of its own. Otherwise it would take the lowest of its pods', and when that pod ends, the others could
# reach nothing for seconds.
sysctl -qw net.ipv4.ip_forward=1
if ! ip link show cni0 >/dev/null 2>&1; then
	ip link add cni0 address 0a:58:0a:f4:00:01 type bridge
	ip addr add "$node_ip/24" dev cni0
	ip link set cni0 up
fi
[ -s "$state/admin.kubeconfig" ] || "$here/certs.sh"
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
start_containerd $node_ip true
start registry docker-registry serve "$state/registry.yml"
start kube-apiserver kube-apiserver --etcd-servers=$etcd --secure-port=6443 --bind-address=0.0.0.0 \
	--advertise-address=$node_ip --service-cluster-ip-range=$service_cidr --authorization-mode=Node,RBAC \
	--enable-admission-plugins=NodeRestriction --client-ca-file="$pki/ca.crt" \
	--tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
	--kubelet-client-certificate="$pki/apiserver-kubelet.crt" --kubelet-client-key="$pki/apiserver-kubelet.key" \
	--kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
	--service-account-issuer=https://kubernetes.default.svc.cluster.local \
	--service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key"
await containerd 180 ctr version
await registry 180 curl -fs "http://$registry/v2/"
await kube-apiserver 180 kubectl get --raw /readyz

as() { echo "--kubeconfig=$state/$1.kubeconfig --authentication-kubeconfig=$state/$1.kubeconfig --bind-address=127.0.0.1"; }
# A claim is bound within one second instead of fifteen.
start kube-controller-manager kube-controller-manager $(as controller-manager) --leader-elect=false \
	--authorization-kubeconfig="$state/controller-manager.kubeconfig" --use-service-account-credentials=true \
	--root-ca-file="$pki/ca.crt" --service-account-private-key-file="$pki/sa.key" \
	--cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" --pvclaimbinder-sync-period=1s
start kube-scheduler kube-scheduler $(as scheduler) --authorization-kubeconfig="$state/scheduler.kubeconfig" --leader-elect=false
start_kubelet kubelet $pod_cidr
await kube-controller-manager 180 kubectl get serviceaccount default
