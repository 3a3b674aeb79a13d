#include "provisioner/catalog/csv_table.h"

#include <fmt/core.h>

namespace ps::provisioner {
namespace {

class Reader {
 public:
  Reader(std::string_view text, char separator) : text_(text), separator_(separator) {
    if (text_.starts_with("\xef\xbb\xbf")) {
      at_ = 3;
    }
  }

  bool AtEnd() const { return at_ == text_.size(); }

  int line() const { return line_; }

  /// The next cell, without the separator or newline after it. False: a quote is never closed.
  bool Cell(std::string& out) {
    if (!AtEnd() && text_[at_] == '"') {
      return Quoted(out);
    }
    while (!AtEnd() && text_[at_] != separator_ && text_[at_] != '\n') {
      out += text_[at_++];
    }
    if (out.ends_with('\r')) {
      out.pop_back();
    }
    return true;
  }

  /// Steps over the end of a cell. True: another cell of the same row follows.
  bool SkipToNextCell() {
    while (!AtEnd() && text_[at_] == '\r') {
      ++at_;
    }
    if (AtEnd()) {
      return false;
    }
    line_ += text_[at_] == '\n' ? 1 : 0;
    return text_[at_++] == separator_;
  }

 private:
  bool Quoted(std::string& out) {
    for (++at_; !AtEnd(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        if (AtEnd() || text_[at_] != '"') {
          return Cell(out);  // what follows the quote up to the separator: nothing, usually
        }
      }
      line_ += text_[at_] == '\n' ? 1 : 0;
      out += text_[at_];
    }
    return false;
  }

  std::string_view text_;
  char separator_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

Result<CsvTable> ParseCsv(std::string_view text, char separator, const std::string& file) {
  CsvTable table;
  Reader reader(text, separator);
  while (!reader.AtEnd()) {
    CsvTable::Row row;
    row.line = reader.line();
    do {
      if (!reader.Cell(row.cells.emplace_back())) {
        return Status::InvalidArgument(fmt::format(
            "{}:{}: a double quote is never closed; allowed: \"...\", with \"\" for a "
            "quote inside",
            file,
            row.line));
      }
    } while (reader.SkipToNextCell());
    if (row.cells.size() > 1 || !row.cells.front().empty()) {
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace ps::provisioner
