#include "psctl/remote/head_job.h"

namespace ps::psctl {

HeadJob HeadJobOf(proto::JobConfig config, const std::string& private_address) {
  HeadJob job;
  const auto take_along = [&job](std::string* path, const char* name) {
    if (!path->empty() && path->find("://") == std::string::npos) {
      job.files.emplace_back(*path, name);
      *path = name;
    }
  };
  take_along(&config.launch.rent.setup, "setup");
  take_along(&config.launch.ssh_config, "ssh_config");
  take_along(&config.model.from, "model_from.safetensors");
  config.checkpoint.path.clear();
  config.launch.rent.head = {};
  config.launch.rent.private_address = true;
  config.run.directory = "runs";
  config.run.listen = "0.0.0.0";
  config.run.advertise = private_address;
  job.text = proto::PrintJobConfig(config);
  return job;
}

}  // namespace ps::psctl
