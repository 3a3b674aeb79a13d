#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ps/proto/files/catalog.h"

namespace ps::provisioner {

/// A catalog while files are merged into it: the known figures of each type.
class CatalogDraft {
 public:
  struct Type {
    proto::InstanceType type;
    bool has_device = false;  // some file said which accelerator it has, or that it has none
    std::string price_as_of;
    std::optional<double> saving;  // of spot over on-demand, 0 to 1
    std::string saving_as_of;
    std::optional<int> quota;
  };

  explicit CatalogDraft(const proto::Catalog& base);

  /// Made when it is new. The reference holds until the next call.
  Type& At(const std::string& name);

  bool Has(const std::string& name) const { return index_.contains(name); }

  void SetDeviceMemory(const std::string& device, double gib) { device_memory_[device] = gib; }

  /// Replaces the zone's price unless that one is newer.
  static void SetSpot(proto::InstanceType& type, proto::SpotPrice price);

  struct Finished {
    std::vector<proto::InstanceType> types;
    std::string as_of;               // the oldest on-demand price's
    std::vector<std::string> notes;  // what was left out and why
  };

  /// `region` is the zone of estimates; `quota` that of types for which no file says.
  Finished Finish(const std::string& region, int quota) const;

 private:
  std::vector<Type> types_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, double, std::less<>> device_memory_;
};

}  // namespace ps::provisioner
