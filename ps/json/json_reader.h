#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ps/base/status.h"

namespace ps {

/// Where something stands: in the file, or in the n-th --set (then `line` is n, `column` counts in
/// "key=value"). Both from 1; columns count characters, not bytes.
struct Place {
  int line = 1;
  int column = 1;
  bool is_override = false;
};

/// "FILE:LINE:COLUMN: what"; FILE is "--set" for overrides. kInvalidArgument.
Status ErrorAt(const std::string& file, Place place, const std::string& what);

/// `text` in double quotes on one line, shortened, for messages.
std::string Quoted(std::string_view text);

enum class JsonComments : uint8_t { kRefused, kTaken };

/// Reads a document value by value, and keeps nothing of it: for files whose form is known, and for
/// ParseJson, which takes any. Strict JSON (RFC 8259), with comments (// and /* */) where they are
/// taken. Duplicate names, trailing commas, invalid UTF-8 and NUL are errors. Each call but Begin
/// wants the cursor at a value, and leaves it behind that. Errors: those of ErrorAt.
class JsonReader {
 public:
  /// `begin`: the place of the first character.
  JsonReader(std::string_view text, std::string file, JsonComments comments, Place begin = {})
      : text_(text), file_(std::move(file)), comments_(comments), place_(begin) {}

  /// To the first value. `End`: nothing follows.
  Status Begin();
  Status End();

  /// The first character of the value: '{', '[', '"', that of a number or word; NUL at the end.
  char Peek() const { return Peek(0); }

  Place place() const { return place_; }

  /// An object or a list; the function reads the value of each member.
  Status Object(const std::function<Status(std::string name, Place place)>& read_member);
  Status List(const std::function<Status()>& read_element);
  Result<std::string> Text();
  /// As written.
  Result<std::string_view> Number();
  /// true, false or null.
  Result<std::string_view> Word();

  Status Fail(const std::string& what) const { return ErrorAt(file_, place_, what); }

  /// "unexpected X; expected WANTED".
  Status FailHere(const std::string& wanted) const;

 private:
  bool AtEnd() const { return at_ == text_.size(); }

  char Peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void Advance(size_t bytes = 1);
  Status SkipSpace();
  Status Children(char close, const std::function<Status()>& read_child);
  Status Escape(std::string& out);
  /// The number of "\uXXXX" at the cursor, which stays.
  std::optional<uint32_t> UnicodeEscape() const;
  Status Digits();

  std::string_view text_;
  std::string file_;
  JsonComments comments_;
  size_t at_ = 0;
  Place place_;
};

}  // namespace ps
