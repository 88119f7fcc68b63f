package main

// A real Slurm on the loopback interface: munged, slurmctld and a slurmd for each node, as
// processes of the test, in a folder of its own. Nothing of it outlives the test.

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/statelab/statelab/internal/base/testring"
)

// slurmNode is a node to be.
type slurmNode struct {
	Name     string
	Features string   // with commas between them
	CPUs     int      // 0: 1
	Hides    []string // folders that are empty there, as on a machine that shares no disk
}

// slurmCluster is a Slurm that runs.
type slurmCluster struct {
	t       testing.TB
	dir     string
	Conf    string // SLURM_CONF of its users
	running map[string]*exec.Cmd
	hides   map[string][]string // by node
	cgroups bool
}

// memoryLimits has Slurm keep jobs to the memory that they ask for.
const memoryLimits = "TaskPlugin=task/cgroup\nSelectTypeParameters=CR_CPU_Memory"

// slurmNeeds are the programs that must be installed: scripts/needs gets them.
var slurmNeeds = []string{"munged", "slurmctld", "slurmd", "sbatch", "squeue", "srun", "sbcast",
	"scontrol", "sinfo"}

// slurmWithin is how long a daemon may take to start on a busy machine.
const slurmWithin = 90 * time.Second

// startSlurm starts a cluster, whose processes end with the test. more are lines of slurm.conf. It
// skips the test where the kernel forbids what Slurm needs.
func startSlurm(t testing.TB, nodes []slurmNode, more ...string) *slurmCluster {
	t.Helper()
	testring.Outer(t, "it starts a Slurm")
	for _, program := range slurmNeeds {
		testring.Program(t, program)
	}

	dir, err := os.MkdirTemp("", "slurmtest-") // short: a socket's path has 108 bytes
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})

	if err := os.Chmod(dir, 0o755); err != nil { // munge asks for that
		t.Fatal(err)
	}

	c := &slurmCluster{
		t:       t,
		dir:     dir,
		Conf:    filepath.Join(dir, "slurm.conf"),
		running: map[string]*exec.Cmd{},
		hides:   map[string][]string{},
	}

	c.configure(nodes, more)
	t.Cleanup(c.stop)
	key := make([]byte, 1024)
	rand.Read(key)
	if err := os.WriteFile(c.path("munge.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}

	c.start("munged", "munged", "--foreground", "--force", "--socket="+c.path("munge.socket"),
		"--key-file="+c.path("munge.key"),
		"--pid-file="+c.path("munge.pid"), "--seed-file="+c.path("munge.seed"),
		"--log-file="+c.path("munge.log"))

	c.Until("munged listens", func() bool {
		_, err := os.Stat(c.path("munge.socket"))
		return err == nil
	})

	c.StartController()
	for _, n := range nodes {
		c.hides[n.Name] = n.Hides
		c.StartNode(n.Name)
	}

	c.Until("all nodes are idle", func() bool {
		text, err := c.Ask("sinfo", "--noheader", "--Node", "--format=%t")
		return err == nil && strings.Count(text, "idle\n") == len(nodes)
	})

	return c
}

func (c *slurmCluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *slurmCluster) configure(nodes []slurmNode, more []string) {
	me, err := user.Current()
	if err != nil {
		c.t.Fatal(err)
	}

	ports := freePorts(c.t, len(nodes)+1)
	lines := []string{
		"ClusterName=statelabtest", "SlurmctldHost=localhost(127.0.0.1)",
		fmt.Sprint("SlurmctldPort=", ports[0]),
		"SlurmUser=" + me.Username, "SlurmdUser=" + me.Username, "AuthType=auth/munge",
		"AuthInfo=socket=" + c.path("munge.socket"), "CredType=cred/munge",
		"StateSaveLocation=" + c.path("state"), "SlurmdSpoolDir=" + c.path("spool") + "/%n",
		"SlurmctldPidFile=" + c.path("slurmctld.pid"),
		"SlurmdPidFile=" + c.path("%n.pid"), "SlurmctldLogFile=" + c.path("slurmctld.log"),
		"SlurmdLogFile=" + c.path("%n.log"),
		"ProctrackType=proctrack/linuxproc", "SwitchType=switch/none", "MpiDefault=none",
		"SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU",
		"SlurmdParameters=config_overrides", "ReturnToService=1", "SlurmdTimeout=8",
		"SlurmctldTimeout=8", "MessageTimeout=20", "KillWait=5",
		"SchedulerParameters=batch_sched_delay=0,sched_min_interval=200000,bf_interval=2",
		"JobRequeue=1",
	}

	if c.cgroups = slices.Contains(more, memoryLimits); c.cgroups {
		lines = slices.DeleteFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, "SelectTypeParameters=")
		})
		c.configureCgroups()
	} else {
		lines = append(lines, "TaskPlugin=task/none")
	}

	var names []string
	for i, n := range nodes {
		features := ""
		if n.Features != "" {
			features = " Feature=" + n.Features
		}

		lines = append(lines,
			fmt.Sprintf("NodeName=%s NodeHostname=localhost NodeAddr=127.0.0.1 Port=%d CPUs=%d "+
				"RealMemory=1000%s", n.Name, ports[i+1],
				max(n.CPUs, 1), features))

		names = append(names, n.Name)
	}

	lines = append(lines, "PartitionName=main Nodes="+strings.Join(names, ",")+
		" Default=YES MaxTime=INFINITE State=UP")
	for _, folder := range []string{"state", "spool"} {
		if err := os.Mkdir(c.path(folder), 0o755); err != nil {
			c.t.Fatal(err)
		}
	}

	if err := os.WriteFile(c.Conf, []byte(strings.Join(append(lines, more...), "\n")+"\n"),
		0o644); err != nil {
		c.t.Fatal(err)
	}
}

// configureCgroups skips the test where no control group can be made.
func (c *slurmCluster) configureCgroups() {
	version := "v2"
	at := "/sys/fs/cgroup"
	if _, err := os.Stat("/sys/fs/cgroup/memory/cgroup.procs"); err == nil {
		version, at = "v1", "/sys/fs/cgroup/memory"
	}

	probe, err := os.MkdirTemp(at, "slurmtest-")
	if err != nil {
		c.t.Skipf("skipped: the kernel does not let Slurm limit memory: %v", err)
	}

	if err := os.Remove(probe); err != nil {
		c.t.Error(err)
	}

	text := "CgroupPlugin=cgroup/" + version +
		"\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\nIgnoreSystemd=yes\n"
	if err := os.WriteFile(c.path("cgroup.conf"), []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// start runs a daemon in the foreground of this test.
func (c *slurmCluster) start(name, program string, args ...string) {
	c.t.Helper()
	command := exec.Command(testring.Program(c.t, program), args...)
	command.Env = append(os.Environ(), "SLURM_CONF="+c.Conf)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	words, err := os.OpenFile(c.path(name+".out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		c.t.Fatal(err)
	}

	defer words.Close()
	command.Stdout, command.Stderr = words, words
	if err := command.Start(); err != nil {
		if errors.Is(err, syscall.EPERM) {
			c.t.Skipf("skipped: the kernel does not let %s start: %v", program, err)
		}
		c.t.Fatal(err)
	}

	c.running[name] = command
}

// StartController starts slurmctld, perhaps again.
func (c *slurmCluster) StartController() {
	c.t.Helper()
	c.start("slurmctld", "slurmctld", "-D")
	c.Until("the controller answers", func() bool {
		_, err := c.Ask("sinfo", "--noheader")
		return err == nil
	})
}

// StartNode starts a node's slurmd, perhaps again.
func (c *slurmCluster) StartNode(name string) {
	c.t.Helper()
	path := testring.Program(c.t, "slurmd")
	if hides := c.hides[name]; len(hides) > 0 {
		// In a mount namespace of its own.
		script := `for dir; do mount -t tmpfs none "$dir" || exit 1; done; exec "$0" -D -N ` + name
		c.start(name, "unshare",
			append([]string{"--mount", "/bin/sh", "-c", script, path}, hides...)...)
		return
	}

	c.start(name, path, "-D", "-N", name)
}

// Kill kills a node's slurmd, or slurmctld; what its jobs started lives on.
func (c *slurmCluster) Kill(name string) {
	c.t.Helper()
	command := c.running[name]
	if err := command.Process.Kill(); err != nil {
		c.t.Errorf("kill %s: %v", name, err)
	}
	command.Wait()
	delete(c.running, name)
}

// Ask runs one of Slurm's programs.
func (c *slurmCluster) Ask(program string, args ...string) (string, error) {
	command := exec.Command(program, args...)
	command.Env = append(os.Environ(), "SLURM_CONF="+c.Conf)
	var out, words bytes.Buffer
	command.Stdout, command.Stderr = &out, &words
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err,
			words.String())
	}

	return out.String(), nil
}

// Must is Ask for what has to succeed.
func (c *slurmCluster) Must(program string, args ...string) string {
	c.t.Helper()
	text, err := c.Ask(program, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

// Until waits for a condition; it fails with what the daemons said, or skips where the kernel
// forbids one something.
func (c *slurmCluster) Until(what string, reached func() bool) {
	c.t.Helper()
	for began := time.Now(); !reached(); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) < slurmWithin {
			continue
		}

		said := c.words()
		for line := range strings.Lines(said) {
			if strings.Contains(line, "Operation not permitted") ||
				c.cgroups && strings.Contains(line, "error: cgroup") {
				c.t.Skipf("skipped: the kernel forbids what Slurm needs: %s", line)
			}
		}

		queue, err := c.Ask("squeue", "--array")
		c.t.Fatalf("waited too long until %s\n%s%v\n%s", what, queue, err, said)
	}
}

// words are the ends of the daemons' logs.
func (c *slurmCluster) words() string {
	var b strings.Builder
	for _, pattern := range []string{"*.out", "*.log"} {
		paths, err := filepath.Glob(c.path(pattern))
		if err != nil {
			return err.Error()
		}

		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			fmt.Fprintf(&b, "--- %s\n%s\n", filepath.Base(path), text[max(0, len(text)-1000):])
		}
	}

	return b.String()
}

// stop ends the jobs, then the daemons.
func (c *slurmCluster) stop() {
	if c.t.Failed() {
		c.t.Log(c.words())
	}

	if c.running["slurmctld"] != nil {
		me, err := user.Current()
		if err == nil {
			c.Ask("scancel", "--user="+me.Username)
			for range 50 {
				if text, err := c.Ask("squeue", "--noheader"); err != nil || text == "" {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
	}

	for name, command := range c.running {
		if err := command.Process.Signal(syscall.SIGTERM); err != nil &&
			!errors.Is(err, os.ErrProcessDone) {
			c.t.Errorf("stop %s: %v", name, err)
		}

		killed := time.AfterFunc(10*time.Second, func() { command.Process.Kill() })
		command.Wait()
		killed.Stop()
		if c.cgroups && name != "slurmctld" {
			// slurmd leaves it; empty, it is harmless
			_ = os.Remove(filepath.Join("/sys/fs/cgroup/memory", "slurm_"+name))
		}
	}
}
