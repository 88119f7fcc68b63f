# Nix's expression. make dist fills in what is between @ signs, and writes dist/statelab.nix:
#   nix-build -E '(import <nixpkgs> {}).callPackage ./statelab.nix {}'
{ lib, buildGoModule, fetchurl, installShellFiles }:

buildGoModule {
  pname = "statelab";
  version = "@VERSION@";

  src = fetchurl {
    url = "https://github.com/statelab/statelab/releases/download/v@VERSION@/statelab-@VERSION@-source.tar.gz";
    sha256 = "@SOURCE_SHA256@";
  };
  # An empty one makes nix-build print the right one.
  vendorHash = "@VENDOR_HASH@";

  subPackages = [ "cmd/statelab" ];
  env.CGO_ENABLED = 0;
  tags = [ "netgo" "osusergo" ];
  ldflags = [ "-s" ];
  doCheck = false; # the tests of the repository need its git history

  nativeBuildInputs = [ installShellFiles ];
  postInstall = ''
    mkdir -p man
    $out/bin/statelab __man man
    installManPage man/*.1
    for shell in bash zsh fish; do
      $out/bin/statelab completion $shell > statelab.$shell
      installShellCompletion statelab.$shell
    done
  '';

  meta = {
    description = "Measures what a lookup of blockchain state costs";
    homepage = "https://github.com/statelab/statelab";
    license = lib.licenses.asl20;
    mainProgram = "statelab";
  };
}
