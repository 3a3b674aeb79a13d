#pragma once

#include <memory>
#include <string>

#include "ps/base/status.h"
#include "ps/http/http.h"
#include "ps/process/environment.h"
#include "ps/store/object_store.h"
#include "ps/store/s3_settings.h"
#include "ps/store/s3_store.h"

namespace ps::checkpoint {

/// The object store that a user means: "s3://BUCKET/PREFIX", or a folder by its path, with or
/// without "file://" in front. Nothing is asked of it yet. Errors: kInvalidArgument (it is none;
/// no access key), with what to do.
Result<std::unique_ptr<store::ObjectStore>> OpenObjectStore(
    const std::string& place,
    const Environment& environment,
    store::Pause pause,
    IsCancelled is_cancelled);

/// Whether it names an object store, or is a folder that one has written.
bool IsObjectStore(const std::string& place);

/// Names this process among those that copy: host, process and time.
std::string MakeWriterName();

}  // namespace ps::checkpoint
