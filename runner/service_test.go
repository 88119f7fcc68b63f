package runner

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

func TestSignalsInterrupt(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(s) {
			continue // as under nohup: it stays ignored
		}

		ctx, stop := interruptible()
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}

		<-ctx.Done()
		stop()
	}
}
