// Package controlplane starts a real Kubernetes API, etcd and kube-apiserver,
// for tests: on loopback and free ports, with certificates of its own, in a
// directory of the test. It owns no nodes, so nothing runs as a pod.
//
// KUBEBUILDER_ASSETS names the folder that has the two programs;
// tools/controlplane/build makes it, and make test sets it. A test without it
// fails and is not skipped.
//
// A process is ended by its id when the test ends, and by the kernel when the
// test dies.
package controlplane
