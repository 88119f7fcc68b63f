# Homebrew's formula. make dist fills in what is between @ signs, and writes dist/statelab.rb.
class Statelab < Formula
  desc "Measures what a lookup of blockchain state costs"
  homepage "https://github.com/statelab/statelab"
  url "https://github.com/statelab/statelab/releases/download/v@VERSION@/statelab-@VERSION@-source.tar.gz"
  sha256 "@SOURCE_SHA256@"
  license "Apache-2.0"

  depends_on "go" => :build

  def install
    ENV["CGO_ENABLED"] = "0"
    system "go", "build", *std_go_args(ldflags: "-s", tags: "netgo,osusergo"), "./cmd/statelab"
    man1.mkpath
    system bin/"statelab", "__man", man1
    generate_completions_from_executable(bin/"statelab", "completion")
  end

  test do
    assert_match "statelab @VERSION@", shell_output("#{bin}/statelab --version")
    assert_match "block reads", shell_output("#{bin}/statelab predict --keys 1M --cache 1% --gets 10k")
  end
end
