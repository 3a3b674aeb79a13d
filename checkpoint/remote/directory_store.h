#pragma once

#include <memory>
#include <string>

#include "ps/store/object_store.h"

namespace ps::checkpoint {

/// Objects as files below `root`: a disk of this machine, or one that is mounted (NFS, EBS). A file
/// is written under another name, synced and renamed. `root` is created by the first Put.
std::unique_ptr<store::ObjectStore> MakeDirectoryStore(std::string root);

}  // namespace ps::checkpoint
