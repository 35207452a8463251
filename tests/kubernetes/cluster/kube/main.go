// One binary for both: the first argument says which of kube-apiserver and kube-controller-manager it is.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	os.Args = os.Args[1:]
	if os.Args[0] == "kube-apiserver" {
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	}
	os.Exit(cli.Run(manager.NewControllerManagerCommand()))
}
