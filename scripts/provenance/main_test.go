package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// release is a folder with two artefacts and their signed statement; public is its key.
func release(t *testing.T) (dir, statement, public string) {
	t.Helper()
	dir = t.TempDir()
	write := func(name string, text []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}

	publicKey, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}

	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}

	open, err := x509.MarshalPKIXPublicKey(publicKey)
	if err != nil {
		t.Fatal(err)
	}

	keyFile := write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	public = write("public.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}))
	var out bytes.Buffer
	err = run([]string{"sign", keyFile, "0.3.0", commit, "make build;make dist VERSION=0.3.0",
		write("a.tar.gz", []byte("a")), write("b.deb", []byte("b"))}, &out)
	if err != nil {
		t.Fatal(err)
	}

	return dir, write("provenance.intoto.jsonl", out.Bytes()), public
}

// TestStatement: what a statement says, and that nothing of a release can change unseen, neither by
// this program nor by the commands of scripts/verify-release.
func TestStatement(t *testing.T) {
	ours := func(public, statement string) (string, error) {
		var out strings.Builder
		err := run([]string{"verify", public, statement}, &out)
		return out.String(), err
	}

	t.Run("Go", func(t *testing.T) { testVerifier(t, ours) })
	t.Run("openssl", func(t *testing.T) {
		for _, needed := range []string{"openssl", "jq", "sha256sum"} {
			testring.Program(t, needed)
		}

		testVerifier(t, func(public, statement string) (string, error) {
			out, err := exec.Command("../verify-release", public, statement).CombinedOutput()
			return string(out), err
		})
	})

	_, statement, _ := release(t)
	e := read(t, statement)
	payload, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{commit, `"make dist VERSION=0.3.0"`, `"go": "go1.`,
		"https://slsa.dev/provenance/v1", `"name": "b.deb"`} {
		if !bytes.Contains(payload, []byte(want)) {
			t.Errorf("no %s in %s", want, payload)
		}
	}
}

func testVerifier(t *testing.T, verify func(public, statement string) (string, error)) {
	t.Helper()
	_, statement, public := release(t)
	out, err := verify(public, statement)
	if err != nil || !strings.Contains(out, "a.tar.gz: OK") || !strings.Contains(out, "b.deb: OK") {
		t.Fatalf("what was signed does not pass: %v\n%s", err, out)
	}

	for what, change := range map[string]func(t *testing.T, dir, statement, public string){
		"an artefact": func(t *testing.T, dir, _, _ string) {
			replace(t, filepath.Join(dir, "a.tar.gz"), "A")
		},
		"a missing artefact": func(t *testing.T, dir, _, _ string) {
			if err := os.Remove(filepath.Join(dir, "b.deb")); err != nil {
				t.Fatal(err)
			}
		},
		"the statement": func(t *testing.T, _, statement, _ string) {
			e := read(t, statement)
			payload, err := base64.StdEncoding.DecodeString(e.Payload)
			if err != nil {
				t.Fatal(err)
			}

			payload = bytes.Replace(payload, []byte(commit), []byte(strings.Repeat("0", 40)), 1)
			e.Payload = base64.StdEncoding.EncodeToString(payload)
			text, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			replace(t, statement, string(text))
		},
		"the key": func(t *testing.T, _, _, public string) {
			_, _, other := release(t)
			text, err := os.ReadFile(other)
			if err != nil {
				t.Fatal(err)
			}
			replace(t, public, string(text))
		},
		"no signature": func(t *testing.T, _, statement, _ string) {
			e := read(t, statement)
			e.Signatures = nil
			text, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			replace(t, statement, string(text))
		},
	} {
		dir, statement, public := release(t)
		change(t, dir, statement, public)
		if out, err := verify(public, statement); err == nil {
			t.Errorf("%s: passes: %s", what, out)
		}
	}
}

// TestOtherKeysAreRefused: openssl makes keys of many kinds.
func TestOtherKeysAreRefused(t *testing.T) {
	dir, statement, public := release(t)
	for _, args := range [][]string{
		{"sign", public, "0.3.0", commit, "make", statement},
		{"sign", statement, "0.3.0", commit, "make", statement},
		{"sign", filepath.Join(dir, "key.pem"), "0.3.0", commit, "make", dir},
		{"verify", filepath.Join(dir, "key.pem"), statement},
		{"verify", public, public},
		{"sign"},
	} {
		if err := run(args, new(bytes.Buffer)); err == nil {
			t.Errorf("%q passes", args)
		}
	}
}

func read(t *testing.T, statement string) (e envelope) {
	t.Helper()
	text, err := os.ReadFile(statement)
	if err != nil {
		t.Fatal(err)
	}

	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}

	return e
}

func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
