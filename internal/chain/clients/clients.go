// Package clients names the programs that own databases of a chain's state.
//
// Non-goals: which of them a database belongs to (dbformat), and what their flags do (advice).
package clients

// Client is a program that owns databases, as results store it.
type Client string

// Clients whose databases or flags are known.
const (
	Geth Client = "geth" // and its kin with the same files and flags, such as op-geth
	// with --multidatabase: geth's keys in several databases, and its flags
	BSC        Client = "bsc"
	Reth       Client = "reth"
	Erigon     Client = "Erigon"
	Besu       Client = "Besu"
	Nethermind Client = "Nethermind"
	Ethrex     Client = "ethrex"
	// a node of the Cosmos SDK; with app-db-backend pebbledb, one of Pebble
	CosmosSDK Client = "cosmos"
	Statelab  Client = "statelab"

	// Any other program that embeds an engine.
	AnyPebble  Client = "pebble"
	AnyRocksDB Client = "rocksdb"
)

// MixSeparator is between the portions of a mix of tables of a client, such as "a=70;b=30": a comma
// separates values of an axis.
const MixSeparator = ";"

// cosmosName is what a reader calls CosmosSDK, which has many programs.
const cosmosName = "a node of the Cosmos SDK"

// Name is what a reader calls a client, such as "a node of the Cosmos SDK".
func (c Client) Name() string {
	if c == CosmosSDK {
		return cosmosName
	}
	return string(c)
}

// Named is the client of a Name.
func Named(name string) Client {
	if name == cosmosName {
		return CosmosSDK
	}
	return Client(name)
}

// WithFlags is the client whose flags c has: geth for its kin, otherwise c itself.
func (c Client) WithFlags() Client {
	if c == BSC {
		return Geth
	}
	return c
}
