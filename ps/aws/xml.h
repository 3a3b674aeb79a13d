#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::aws {

/// An element of XML as services write it: names without their namespace, no attributes.
struct XmlElement {
  std::string name;
  std::string text;  // characters between its children, entities resolved; blanks stay
  std::vector<XmlElement> children;

  /// The first child of that name; null: there is none.
  const XmlElement* Find(std::string_view child) const;
  /// The text at a path below it, such as "error/code"; empty where there is none.
  std::string_view TextAt(std::string_view path) const;
  /// The children of the element at `path`; none where there is none.
  const std::vector<XmlElement>& ChildrenAt(std::string_view path) const;

 private:
  const XmlElement* At(std::string_view path) const;
};

/// Reads a whole document. An entity that is none stays as it is written, since not every server
/// escapes what it should. Errors: kCorruption (it is cut off, no XML, or has a DTD; more than 32
/// elements inside each other, or 100,000 in all), with the byte where.
Result<XmlElement> ParseXml(std::string_view text);

}  // namespace ps::aws
