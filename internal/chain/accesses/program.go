package accesses

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// Program reads the list that another program writes to its standard output in our own form. What
// the program says on standard error when it fails, with exit status 1, is the error. A program that
// ends otherwise has crashed, as it does over a file that asks for more memory than it may have.
type Program struct {
	*Container
	command *exec.Cmd
	said    strings.Builder
}

// OpenProgram starts a program, which ends with ctx, and reads the header of its list.
func OpenProgram(ctx context.Context, program string, args ...string) (*Program, error) {
	p := &Program{command: exec.CommandContext(ctx, program, args...)}
	p.command.Stderr = &p.said
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	if p.Container, err = OpenContainer(out, program); err != nil {
		return nil, p.end(out, err)
	}
	return p, nil
}

// Next implements Source.
func (p *Program) Next(b *Block) error {
	err := p.Container.Next(b)
	if err != nil {
		err = p.end(p.closer, err)
	}
	return err
}

// Close implements Source. It ends a program that has not written all of its list.
func (p *Program) Close() error {
	p.unpack.Close()
	if p.command.ProcessState != nil {
		return nil
	}
	err := p.command.Process.Kill()
	p.end(p.closer, nil) // that it was killed is no failure
	return err
}

// end waits for the program, after closing what it writes to, and returns why the list ended.
func (p *Program) end(out io.Closer, why error) error {
	out.Close() // a program that still writes ends
	err := p.command.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return cmp.Or(err, why)
	}
	said := strings.TrimSpace(p.said.String())
	if exit.ExitCode() == 1 && said != "" {
		return errors.New(said)
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	if crashed := exit.ExitCode() == crashStatus || status.Signal() == syscall.SIGKILL; !crashed && why != io.EOF {
		return why // it was ended here
	}
	args := p.command.Args
	return fmt.Errorf("%s: %s failed over it (%w): the file is incomplete or damaged, fetch it again", args[len(args)-1], filepath.Base(args[0]), err)
}

// crashStatus is the exit status of a Go program that had not enough memory, or panicked.
const crashStatus = 2

// HasTables tells whether there is a Parquet file under a name, which may be one.
func HasTables(fsys fs.FS, name string) (found bool, err error) {
	err = fs.WalkDir(fsys, name, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && path.Ext(file) == ".parquet" {
			found = true
			return fs.SkipAll
		}
		return err
	})
	return found, err
}
