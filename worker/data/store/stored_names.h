#pragma once

#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "ps/store/object_reader.h"

namespace ps::worker {

/// Whether an object below the prefix, by its name there, could be data of the format: by how it
/// ends, like the files that readers of the format ask for, and not below another folder unless
/// these are pictures, or texts in a folder `validation`. What begins with a point is no data, as
/// in folders.
bool CouldBeData(
    proto::DatasetFormat format, std::string_view name, std::string_view validation = {});

/// Whether each can be a file below one folder, and beside the others. Objects are sorted by name.
/// Errors: kInvalidArgument, a name with "." or ".." or nothing between its slashes, with control
/// characters or longer than files' names are; one that is a file and a folder, or there twice.
Status CheckNames(const std::vector<store::StoredObject>& objects);

}  // namespace ps::worker
