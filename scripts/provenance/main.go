// Command provenance states what the artefacts of a release were made of, and signs that.
//
//	provenance sign KEY VERSION COMMIT COMMANDS FILE...  prints the signed statement of the files
//	provenance verify PUBLIC-KEY STATEMENT               checks it and the files beside it
//
// KEY is an Ed25519 key in PEM, as openssl genpkey -algorithm ed25519 makes one; COMMANDS are
// separated by semicolons. BUILDER is the URI of who or what built, if the variable is set.
//
// The statement is in-toto's, version 1, with the predicate of SLSA provenance, version 1, in an
// envelope of DSSE, version 1.0.2: https://slsa.dev/spec/v1.0/provenance,
// https://github.com/secure-systems-lab/dsse. The same files, commit and key give the same bytes:
// there is no time in it. scripts/verify-release checks one without Go. Non-goals: transparency
// logs and certificates; who the key belongs to must be known from elsewhere.
package main

import (
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	payloadType   = "application/vnd.in-toto+json"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
	source        = "https://github.com/statelab/statelab"
	buildType     = "https://github.com/statelab/statelab/blob/main/scripts/dist"
)

type envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     string      `json:"payload"` // base64 of the statement
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	KeyID string `json:"keyid"` // SHA-256 of the public key in DER
	Sig   string `json:"sig"`   // base64
}

type digests map[string]string

type resource struct {
	Name   string  `json:"name,omitempty"`
	URI    string  `json:"uri,omitempty"`
	Digest digests `json:"digest"`
}

type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType            string         `json:"buildType"`
		ExternalParameters   map[string]any `json:"externalParameters"`
		ResolvedDependencies []resource     `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID      string            `json:"id"`
			Version map[string]string `json:"version"`
		} `json:"builder"`
	} `json:"runDetails"`
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "provenance:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	switch {
	case len(args) > 5 && args[0] == "sign":
		return sign(stdout, args[1], args[2], args[3], strings.Split(args[4], ";"), args[5:])
	case len(args) == 3 && args[0] == "verify":
		return verify(stdout, args[1], args[2])
	}

	return errors.New("usage: provenance sign KEY VERSION COMMIT COMMANDS FILE... | " +
		"verify PUBLIC-KEY STATEMENT")
}

// sign prints the envelope of a statement about files, which are named without their folders.
func sign(stdout io.Writer, keyFile, version, commit string, commands, files []string) error {
	block, err := readPEM(keyFile)
	if err != nil {
		return err
	}

	parsed, err := x509.ParsePKCS8PrivateKey(block)
	if err != nil {
		return fmt.Errorf("%s: no private key: %w", keyFile, err)
	}

	key, is := parsed.(ed25519.PrivateKey)
	if !is {
		return fmt.Errorf("%s: must be an Ed25519 key: openssl genpkey -algorithm ed25519 -out %s",
			keyFile, keyFile)
	}

	s := statement{Type: statementType, PredicateType: predicateType}
	for _, file := range files {
		sum, err := sha256Of(file)
		if err != nil {
			return err
		}
		s.Subject = append(s.Subject, resource{Name: filepath.Base(file),
			Digest: digests{"sha256": sum}})
	}

	build := &s.Predicate.BuildDefinition
	build.BuildType = buildType
	build.ExternalParameters = map[string]any{"version": version, "commands": commands}
	build.ResolvedDependencies = []resource{{URI: source, Digest: digests{"gitCommit": commit}}}
	builder := &s.Predicate.RunDetails.Builder
	builder.ID = cmp.Or(os.Getenv("BUILDER"), buildType)
	builder.Version = map[string]string{"go": runtime.Version(),
		"platform": runtime.GOOS + "/" + runtime.GOARCH}

	payload, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}

	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}

	id := sha256.Sum256(public)
	return json.NewEncoder(stdout).Encode(envelope{
		PayloadType: payloadType,
		Payload:     base64.StdEncoding.EncodeToString(payload),
		Signatures: []signature{{KeyID: hex.EncodeToString(id[:]),
			Sig: base64.StdEncoding.EncodeToString(ed25519.Sign(key, signed(payload)))}},
	})
}

// verify checks the signature of a statement, and the files that it names, which lie beside it.
func verify(stdout io.Writer, keyFile, file string) error {
	block, err := readPEM(keyFile)
	if err != nil {
		return err
	}

	parsed, err := x509.ParsePKIXPublicKey(block)
	key, is := parsed.(ed25519.PublicKey)
	if err != nil || !is {
		return fmt.Errorf("%s: must be a public Ed25519 key: openssl pkey -in KEY -pubout", keyFile)
	}

	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return err
	}

	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return fmt.Errorf("%s: no envelope: %w", file, err)
	}

	payload, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil || e.PayloadType != payloadType || !e.isSignedBy(key, payload) {
		return fmt.Errorf("%s: the signature is not of this statement and this key", file)
	}

	var s statement
	if err := json.Unmarshal(payload, &s); err != nil || s.Type != statementType ||
		s.PredicateType != predicateType || len(s.Subject) == 0 {
		return fmt.Errorf("%s: no statement of provenance (%v)", file, err)
	}

	for _, of := range s.Subject {
		sum, err := sha256Of(filepath.Join(filepath.Dir(file), filepath.Base(of.Name)))
		if err != nil {
			return err
		}

		if sum != of.Digest["sha256"] {
			return fmt.Errorf("%s: is not the file that was signed", of.Name)
		}
		fmt.Fprintf(stdout, "%s: OK\n", of.Name)
	}

	return nil
}

func (e envelope) isSignedBy(key ed25519.PublicKey, payload []byte) bool {
	for _, s := range e.Signatures {
		sig, err := base64.StdEncoding.DecodeString(s.Sig)
		if err == nil && ed25519.Verify(key, signed(payload), sig) {
			return true
		}
	}
	return false
}

// signed is what a signature is of: DSSE's pre-authentication encoding.
func signed(payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload),
		payload)
}

func readPEM(file string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, err
	}

	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s: no key in PEM", file)
	}

	return block.Bytes, nil
}

func sha256Of(file string) (string, error) {
	f, err := os.Open(filepath.Clean(file))
	if err != nil {
		return "", err
	}
	defer f.Close()

	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}

	return hex.EncodeToString(sum.Sum(nil)), nil
}
