"""Makes the files of this folder: the tables as ClickHouse writes them, one as Arrow does, and those of cryo as Polars does.

pip install chdb==4.4.0 pyarrow polars==1.36.1; python make.py
The columns are those of ethpandaops/xatu-data, schema/canonical_execution_.md, and of paradigmxyz/cryo,
crates/freeze/src/datasets/storage_reads.rs and storage_diffs.rs; the rows are made up.
"""
import os
import chdb
import polars
import pyarrow.parquet as parquet

A, B, C = ("0x" + c * 40 for c in "abc")
COLUMNS = {
    "storage_reads": "contract_address String, slot String, value String",
    "storage_diffs": "address String, slot String, from_value String, to_value String",
    "balance_reads": "address String, balance UInt256",
    "balance_diffs": "address String, from_value UInt256, to_value UInt256",
    "nonce_reads": "address String, nonce UInt64",
    "nonce_diffs": "address String, from_value UInt64, to_value UInt64",
}


def word(n):
    return "0x%064x" % n


# Block, transaction, internal index, then the table's own columns. Not in order.
ROWS = {
    "storage_reads": [(101, 0, 0, B, word(1), word(7)), (100, 1, 1, B, word(2), word(0)), (100, 1, 0, B, word(1), word(5))],
    "storage_diffs": [(100, 1, 0, B, word(1), word(5), word(6)), (100, 2, 0, B, word(1), word(6), word(7))],
    "balance_reads": [(100, 0, 0, A, 10**21), (100, 1, 0, A, 10**21 - 1), (101, 0, 0, "0x" + "C" * 40, 0)],
    "balance_diffs": [(100, 0, 0, A, 10**21, 10**21 - 1)],
    "nonce_reads": [(100, 0, 0, A, 3), (101, 0, 0, C, 0)],
    "nonce_diffs": [(100, 0, 0, A, 3, 4)],
}


def make(table, out, settings=""):
    rows = ", ".join("(" + ", ".join(repr(str(v)) if isinstance(v, str) or v >= 2**63 else str(v) for v in row) + ")" for row in ROWS[table])
    if os.path.exists(out):
        os.remove(out)
    made = "block_number UInt64, transaction_index UInt64, internal_index UInt32, " + COLUMNS[table]
    result = chdb.query(f"""SELECT toDateTime(1700000000, 'UTC') AS updated_date_time, block_number, transaction_index,
        toFixedString('{word(1)}', 66) AS transaction_hash, * EXCEPT (block_number, transaction_index),
        toLowCardinality('mainnet') AS meta_network_name FROM values($${made}$$, {rows})
        INTO OUTFILE '{out}' FORMAT Parquet {settings}""")
    assert not result.has_error(), result.error_message()


for name in ROWS:
    make(name, f"canonical_execution_{name}.parquet")
for codec in "none", "snappy", "lz4", "gzip":  # ClickHouse would pack the whole file after an ending
    make("storage_reads", "storage_reads_" + codec, f"SETTINGS output_format_parquet_compression_method='{codec}'")
arrow = parquet.read_table("canonical_execution_storage_reads.parquet")
parquet.write_table(arrow, "storage_reads_arrow2", data_page_version="2.0", compression="zstd")
parquet.write_table(arrow, "storage_reads_arrow1", use_dictionary=False, compression="none")  # without checksums


def cryo(table, out, text):
    """The same rows in the form of cryo, whose words are bytes, or with --hex text."""
    word = (lambda v: v) if text else (lambda v: bytes.fromhex(v[2:]))
    names = [column.split()[0] for column in COLUMNS[table].split(", ")]
    rows = [{"block_number": block, "transaction_index": tx, "transaction_hash": word("0x" + "11" * 32)}
            | {name: word(value) for name, value in zip(names, values)} | {"chain_id": 1} for block, tx, _, *values in ROWS[table]]
    schema = {"block_number": polars.UInt32, "transaction_index": polars.UInt32, "chain_id": polars.UInt64}
    polars.DataFrame(rows, schema_overrides=schema).write_parquet(out, compression="lz4")


cryo("storage_reads", "storage_reads_cryo", False)
cryo("storage_reads", "storage_reads_cryo_hex", True)
cryo("storage_diffs", "storage_diffs_cryo", False)
