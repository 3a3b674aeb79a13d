#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/job/task.h"
#include "worker/data/data_file.h"

namespace ps::worker {

/// More in one line, or more columns, is not a table of numbers.
inline constexpr size_t kTableLineBytesMax = size_t{1} << 20;
inline constexpr size_t kTableColumnsMax = size_t{1} << 16;
inline constexpr size_t kTableClassesMax = size_t{1} << 16;
inline constexpr uint64_t kTableBytesMax = uint64_t{1} << 33;  // of the values in memory

/// The lines of a CSV or TSV file as cells: RFC 4180, each record within one line; ends of line are
/// \n or \r\n, a byte order mark and empty lines at the end are passed over. Of tsv nothing is
/// quoted. Memory: a line.
class TableFile {
 public:
  /// Errors: as DataFile::Open.
  static Result<TableFile> Open(
      const std::string& path, char separator, LoadProgress* progress = nullptr);

  /// The next line's cells into `cells`, valid until the next call; false at the end. Errors:
  /// kCorruption with file and line (too long, quotes that don't fit); as DataFile::ReadSome.
  Result<bool> Next(std::vector<std::string_view>* cells);

  /// Line of the last cells, from 1.
  uint64_t line_number() const { return line_number_; }

  /// kCorruption: "<path>: line <of the last cells>: <message>".
  Status Bad(std::string_view message) const;

 private:
  TableFile(std::string path, char separator, DataFile file)
      : path_(std::move(path)), separator_(separator), file_(std::move(file)) {}

  Result<bool> NextLine();
  Status Split(std::vector<std::string_view>* cells);
  Result<std::string_view> Quoted(size_t* at);

  std::string path_;
  char separator_;
  DataFile file_;
  std::vector<uint8_t> read_;
  size_t read_at_ = 0;
  std::string line_;
  uint64_t line_number_ = 0;
};

/// What is known of a job's tables besides their rows.
struct TableColumns {
  std::vector<std::string> names;  // empty without a header
  size_t count = 0;                // 0: no file has been read
  std::vector<size_t> labels;      // the columns of the labels: one, or several of numbers
  std::vector<bool> is_label;      // of each column

  size_t features() const { return count - labels.size(); }
};

/// Rows: all columns but those of labels, in the order of the file.
struct TableRows {
  std::vector<float> values;
  uint64_t count = 0;
  /// Where numbers are learnt: [rows, label columns]. Else the rest.
  std::vector<float> targets;
  std::vector<std::string> label_names;   // each distinct one, in the order of their first rows
  std::vector<uint32_t> labels;           // of each row: a place in label_names
  std::vector<std::string> first_places;  // "file: line 3: ", where each name is first
};

/// The columns that AppendTable sets by a first file. Errors: the same, as far as it reads.
Result<TableColumns> ReadTableColumns(const std::string& path, const proto::DataConfig& config);

/// Without the blanks around it.
std::string_view TrimmedCell(std::string_view cell);

/// Appends a file to rows. The first file sets the columns, which later ones have to share. Errors:
/// kCorruption with file, line and column: another number of columns, a cell that is empty or no
/// finite number, another header, a header that looks like a row, no such label column, a label
/// that the task can't learn; kCancelled by `progress`, if any; as TableFile.
Status AppendTable(
    const std::string& path,
    const proto::DataConfig& config,
    proto::Task task,
    TableColumns* columns,
    TableRows* rows,
    LoadProgress* progress = nullptr);

/// The number that a cell is, with blanks around it or a plus before it; nothing: it is none. Other
/// than in a column of values it may be infinite.
std::optional<double> NumberIn(std::string_view cell);

}  // namespace ps::worker
