package pebbledb

import (
	"testing"

	"github.com/statelab/statelab/internal/chain/clients"
)

// TestProfilesSayWhoseTheyAre: the version and the client are known of the profile, not read from
// its name.
func TestProfilesSayWhoseTheyAre(t *testing.T) {
	onlyV2 := map[string]bool{
		GethV2().Name:                  true,
		Sei().Name:                     true,
		Columnar(FirstFormatOfV2).Name: true,
	}

	client := map[string]clients.Client{GethV1().Name: clients.Geth, GethV2().Name: clients.Geth}
	names := map[string]bool{}
	for _, p := range Profiles() {
		names[p.Name] = true
		if OnlyV2(p.Name) != onlyV2[p.Name] || ClientOf(p.Name) != client[p.Name] {
			t.Errorf("%s: v2 alone %v, client %q", p.Name, OnlyV2(p.Name), ClientOf(p.Name))
		}
	}

	for _, p := range append(ProfilesV1(), ProfilesV2(FirstFormatOfV2)...) {
		if !names[p.Name] {
			t.Errorf("%s is not among Profiles", p.Name)
		}
	}

	if OnlyV2("unknown") || ClientOf("unknown") != "" {
		t.Error("a profile that is not known")
	}
}
