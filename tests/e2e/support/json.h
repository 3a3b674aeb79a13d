#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ps::e2e {

/// A JSON value as RFC 8259 has it and nothing more: what psctl prints is held against this reader,
/// which shares no code with the product.
class Json {
 public:
  enum class Kind { kNull, kBool, kNumber, kText, kList, kObject };

  /// Nothing when the text is not one valid JSON value with blanks around it.
  static std::optional<Json> Parse(std::string_view text);

  Kind kind() const { return kind_; }

  bool Has(const std::string& key) const { return members_.contains(key); }

  /// A missing member or element is a test failure and reads as null.
  const Json& operator[](const std::string& key) const;
  const Json& operator[](size_t index) const;

  size_t size() const { return kind_ == Kind::kObject ? members_.size() : items_.size(); }

  /// Another kind is a test failure and reads as 0, "".
  double number() const;
  const std::string& text() const;

 private:
  friend class JsonReader;

  Kind kind_ = Kind::kNull;
  double number_ = 0;
  std::string text_;
  std::vector<Json> items_;
  std::map<std::string, Json> members_;
};

}  // namespace ps::e2e
