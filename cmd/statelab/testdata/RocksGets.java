import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.FlushOptions;
import org.rocksdb.LRUCache;
import org.rocksdb.OptimisticTransactionDB;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.Statistics;
import org.rocksdb.TickerType;
import org.rocksdb.Transaction;
import org.rocksdb.WriteOptions;

/**
 * A program of a JVM that knows nothing of Statelab. It uses RocksDB as Besu does: transactions, and
 * column families whose names are a byte. Usage:
 * [OPEN_FILES=N] [FILTERS=none] RocksGets write|read DIR GETS CACHE-BYTES SEED
 *
 * Reading, it says when the library is loaded, waits for a line before it opens the database, says
 * after its Gets what RocksDB counted, and ends with its input.
 */
final class RocksGets {
  private static final int KEYS = 20_000; // of a family
  private static final byte[][] NAMES = {RocksDB.DEFAULT_COLUMN_FAMILY, {6}, {8}, {9}};

  private final OptimisticTransactionDB db;
  private final List<ColumnFamilyHandle> families = new ArrayList<>();
  private final Statistics statistics = new Statistics();

  private RocksGets(String dir, boolean writes, long cacheBytes) throws Exception {
    Map<String, String> env = System.getenv();
    BlockBasedTableConfig tables = new BlockBasedTableConfig()
        .setBlockCache(new LRUCache(cacheBytes)).setCacheIndexAndFilterBlocks(true);
    if (!env.containsKey("FILTERS")) {
      tables.setFilterPolicy(new BloomFilter(10));
    }

    ColumnFamilyOptions family = new ColumnFamilyOptions().setTableFormatConfig(tables)
        .setWriteBufferSize(256 << 10).setTargetFileSizeBase(256 << 10)
        .setDisableAutoCompactions(true);
    DBOptions options = new DBOptions().setCreateIfMissing(writes)
        .setCreateMissingColumnFamilies(writes).setStatistics(statistics)
        .setMaxOpenFiles(Integer.parseInt(env.getOrDefault("OPEN_FILES", "-1")));
    db = OptimisticTransactionDB.open(options, dir,
        Stream.of(NAMES).map(name -> new ColumnFamilyDescriptor(name, family)).toList(), families);
  }

  private ColumnFamilyHandle familyOf(long n) {
    return families.get((int) (n % NAMES.length));
  }

  private static byte[] key(long n) {
    return String.format("%016x", n * 0x9e3779b97f4a7c15L).getBytes(StandardCharsets.US_ASCII);
  }

  /**
   * Writes every key, which compactions move to the last level, and a third of them again, which
   * stay in several tables of level 0: the same levels on every machine.
   */
  private void putAll(Random random) throws Exception {
    put(random, 1);
    for (ColumnFamilyHandle family : families) {
      db.compactRange(family);
    }

    put(random, 3);
  }

  private void put(Random random, int every) throws Exception {
    byte[] value = new byte[100];
    WriteOptions options = new WriteOptions().setDisableWAL(true);
    for (long n = 0; n < (long) KEYS * NAMES.length; n += every) {
      random.nextBytes(value);
      db.put(familyOf(n), options, key(n), value);
    }

    db.flush(new FlushOptions(), families);
  }

  /** Gets of random keys, of which a fifth has no value; a quarter of them is of transactions. */
  private long getAll(Random random, long gets) throws Exception {
    ReadOptions options = new ReadOptions();
    long found = 0;
    for (long i = 0; i < gets; i++) {
      long n = random.nextInt(KEYS * NAMES.length / 4 * 5);
      byte[] value;
      if (i % 4 == 0) {
        try (Transaction t = db.beginTransaction(new WriteOptions())) {
          value = t.get(options, familyOf(n), key(n));
        }
      } else {
        value = db.get(familyOf(n), options, key(n));
      }

      found += value == null ? 0 : 1;
    }

    return found;
  }

  public static void main(String[] args) throws Exception {
    boolean writes = args[0].equals("write");
    Random random = new Random(Long.parseLong(args[4]));
    RocksDB.loadLibrary();
    System.out.println("ready 0");
    if (!writes && System.in.read() < 0) {
      return;
    }

    RocksGets program = new RocksGets(args[1], writes, Long.parseLong(args[3]));
    if (writes) {
      program.putAll(random);
    } else {
      System.out.println("found " + program.getAll(random, Long.parseLong(args[2])));
      System.out.println("counted " + program.statistics.getTickerCount(TickerType.NUMBER_KEYS_READ));
      while (System.in.read() >= 0) {
      }
    }

    program.families.forEach(ColumnFamilyHandle::close);
    program.db.close();
  }
}
