package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/explain/serve"
)

func (a *app) serveVerb() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "serve [FOLDER]",
		Short: "Show all results below a folder as local pages: list, reports, overlays, what runs now",
		Long: `Serve lists every folder of results below FOLDER (default: statelab-runs), opens
their reports, overlays chosen runs, and shows a sweep while it is
measured. Pages load nothing from the network.

  statelab serve
  statelab serve results --listen :8080            (for this machine only)
  statelab serve results --listen 192.168.1.5:8080 (for others, too: anybody there
                                                    can read the results)`,
	}
	cmd.Flags().StringVar(&listen, "listen", ":8111", "where: :PORT for this machine only, or HOST:PORT")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		root := "statelab-runs"
		if len(args) == 1 {
			root = args[0]
		} else if len(args) > 1 {
			m.add("name one folder (example: statelab serve results)")
		}
		address := m.listenAddress("listen", listen)
		if info, err := os.Stat(root); err != nil || !info.IsDir() {
			m.add("%s: no such folder (name the folder that holds your results: statelab serve FOLDER)", root)
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
	})
}
