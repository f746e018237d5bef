#!/usr/bin/env bash
# Makes the cluster's authority, the certificates of its servers and clients, and their kubeconfigs.
# certs.sh FILE NODE IP makes those of another node.
set -euo pipefail
. "$(dirname "$0")/env.sh"
mkdir -p "$pki"
cd "$pki"

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

cert() { # name subject usage [alternative names]
	key "$1"
	{
		echo "basicConstraints=CA:FALSE"
		echo "keyUsage=digitalSignature"
		echo "extendedKeyUsage=$3"
		[ -z "${4:-}" ] || echo "subjectAltName=$4"
	} >"$1.ext"
	openssl req -new -key "$1.key" -subj "$2" |
		openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -extfile "$1.ext" -out "$1.crt" 2>/dev/null
}

kubeconfig() { # name
	cat >"$CLUSTER_STATE/$1.kubeconfig" <<K
apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: $1}}]
clusters: [{name: test, cluster: {server: "https://$node_ip:6443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: $1, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
K
}

kubelet() { # file node ip
	cert "$1-server" "/CN=system:node:$2/O=system:nodes" serverAuth "DNS:$2,DNS:localhost,IP:127.0.0.1,IP:$3"
	cert "$1" "/O=system:nodes/CN=system:node:$2" clientAuth
	kubeconfig "$1"
}

if [ $# -gt 0 ]; then
	kubelet "$@"
	exit
fi
key ca
openssl req -x509 -new -key ca.key -subj /CN=fiber-cluster-ca -days 3650 -out ca.crt
openssl genrsa -out sa.key 2048 2>/dev/null
openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
names=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,DNS:localhost
cert apiserver /CN=kube-apiserver serverAuth "$names,IP:127.0.0.1,IP:$service_ip,IP:$node_ip"
cert apiserver-kubelet /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
cert admin /O=system:masters/CN=admin clientAuth
cert controller-manager /CN=system:kube-controller-manager clientAuth
cert scheduler /CN=system:kube-scheduler clientAuth
cert proxy /CN=system:kube-proxy clientAuth
kubelet kubelet $node $node_ip
for user in admin controller-manager scheduler proxy; do kubeconfig "$user"; done
