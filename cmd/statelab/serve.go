package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/statelab/statelab/internal/explain/serve"
)

// serve shows the results below a folder as local pages until the context ends.
func (a *app) serve(m *mistakes, args []string, listen string) error {
	root := "statelab-runs"
	if len(args) == 1 {
		root = args[0]
	} else if len(args) > 1 {
		m.add("name one folder (example: statelab report --serve results)")
	}
	address := m.listenAddress("listen", listen)
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		m.add("%s: no such folder (name the folder that holds your results: statelab report --serve FOLDER)", root)
	}
	if err := m.err(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", listen, err)
	}
	handler, err := serve.Handler(root, listener.Addr().String())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	shown := listener.Addr().String()
	if host, port, err := net.SplitHostPort(shown); err == nil && net.ParseIP(host).IsUnspecified() {
		shown = "localhost:" + port // and every other address of this machine
	}
	fmt.Fprintf(a.stdout, "http://%s/ (stop with Ctrl-C)\n", shown)
	stopped := context.AfterFunc(a.ctx, func() { _ = server.Close() }) // Serve returns why
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
