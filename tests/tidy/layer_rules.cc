// The folder table of the architecture, as data, and the two places where a layer could be broken:
// what a file includes and what a target links.

#include <algorithm>
#include <map>
#include <string>

#include "tests/tidy/cmake_reader.h"
#include "tests/tidy/rules.h"

namespace ps::tidy {
namespace {

struct Layer {
  std::string_view folder;
  std::vector<std::string_view> uses;
};

const std::vector<Layer>& Layers() {
  static const std::vector<Layer> layers = {
      {"configs", {}},
      {"ps/base", {}},
      {"ps/process", {"ps/base"}},
      {"ps/codec", {"ps/base"}},
      {"ps/json", {"ps/base"}},
      {"ps/proto", {"ps/base", "ps/codec", "ps/json", "configs"}},
      {"ps/emulation", {"ps/base", "ps/proto"}},
      {"ps/http", {"ps/base"}},
      {"ps/aws", {"ps/base", "ps/process", "ps/json", "ps/http"}},
      {"ps/store", {"ps/base", "ps/process", "ps/http", "ps/aws", "ps/crypto"}},
      {"ps/notice", {"ps/base", "ps/process", "ps/json", "ps/proto", "ps/http"}},
      {"ps/crypto", {"ps/base"}},
      {"ps/net", {"ps/base", "ps/process", "ps/proto", "ps/emulation", "ps/crypto"}},
      {"ps/client", {"ps/base", "ps/codec", "ps/proto", "ps/net"}},
      {"ps/server",
       {"ps/base",
        "ps/codec",
        "ps/process",
        "ps/proto",
        "ps/emulation",
        "ps/crypto",
        "ps/net",
        "ps/notice",
        "kernels",
        "kernels/cpu",
        "checkpoint"}},
      {"ps/coordinator/meters", {"ps/base", "ps/proto"}},
      {"ps/coordinator/state",
       {"ps/base", "ps/proto", "ps/crypto", "checkpoint", "ps/coordinator/meters"}},
      {"ps/coordinator/checkpoints",
       {"ps/base",
        "ps/process",
        "ps/proto",
        "ps/crypto",
        "checkpoint",
        "ps/coordinator/meters",
        "ps/coordinator/state"}},
      {"ps/coordinator/workers",
       {"ps/base",
        "ps/proto",
        "ps/crypto",
        "checkpoint",
        "ps/coordinator/meters",
        "ps/coordinator/state",
        "ps/coordinator/checkpoints"}},
      {"ps/coordinator/servers",
       {"ps/base",
        "ps/proto",
        "ps/crypto",
        "checkpoint",
        "ps/coordinator/meters",
        "ps/coordinator/state",
        "ps/coordinator/checkpoints",
        "ps/coordinator/workers"}},
      {"ps/coordinator/fleet",
       {"ps/base",
        "ps/proto",
        "ps/crypto",
        "checkpoint",
        "ps/coordinator/meters",
        "ps/coordinator/state",
        "ps/coordinator/checkpoints",
        "ps/coordinator/workers",
        "ps/coordinator/servers"}},
      {"ps/coordinator",
       {"ps/base",
        "ps/process",
        "ps/proto",
        "ps/http",
        "ps/crypto",
        "ps/net",
        "checkpoint",
        "checkpoint/remote",
        "ps/coordinator/meters",
        "ps/coordinator/state",
        "ps/coordinator/checkpoints",
        "ps/coordinator/workers",
        "ps/coordinator/servers",
        "ps/coordinator/fleet"}},
      {"checkpoint/remote",
       {"ps/base",
        "ps/process",
        "ps/json",
        "ps/http",
        "ps/aws",
        "ps/crypto",
        "ps/store",
        "checkpoint"}},
      {"checkpoint", {"ps/base", "ps/json"}},
      {"kernels/cpu", {"ps/base", "ps/codec", "kernels"}},
      {"kernels/cuda", {"ps/base", "ps/codec", "kernels"}},
      {"kernels", {"ps/base", "ps/codec", "configs"}},
      {"worker/model",
       {"ps/base", "ps/codec", "ps/proto", "kernels", "kernels/cpu", "kernels/cuda"}},
      {"worker/data",
       {"ps/base",
        "ps/process",
        "ps/json",
        "ps/proto",
        "ps/http",
        "ps/crypto",
        "ps/store",
        "worker/model"}},
      {"worker/use",
       {"ps/base",
        "ps/json",
        "ps/proto",
        "ps/crypto",
        "checkpoint",
        "kernels",
        "worker/model",
        "worker/data"}},
      {"worker/shell",
       {"ps/base",
        "ps/process",
        "ps/proto",
        "ps/emulation",
        "ps/crypto",
        "ps/net",
        "ps/client",
        "ps/notice"}},
      {"worker/script",
       {"ps/base",
        "ps/codec",
        "ps/process",
        "ps/json",
        "ps/proto",
        "ps/emulation",
        "ps/net",
        "ps/client",
        "checkpoint",
        "worker/data",
        "worker/shell"}},
      {"worker",
       {"ps/base",
        "ps/codec",
        "ps/process",
        "ps/proto",
        "ps/emulation",
        "ps/crypto",
        "ps/net",
        "ps/client",
        "ps/notice",
        "kernels",
        "kernels/cpu",
        "kernels/cuda",
        "worker/model",
        "worker/data",
        "worker/shell",
        "worker/script"}},
      {"provisioner/catalog", {"ps/base", "ps/proto"}},
      {"provisioner/profile", {"ps/base", "ps/proto"}},
      {"provisioner/model", {"ps/base", "ps/codec", "ps/proto", "provisioner/profile"}},
      {"provisioner/unseen", {"ps/base", "ps/proto", "provisioner/model"}},
      {"provisioner/planner", {"ps/base", "ps/proto", "provisioner/profile", "provisioner/model"}},
      {"provisioner/report",
       {"ps/base",
        "ps/proto",
        "provisioner/model",
        "provisioner/planner",
        "provisioner/strategies"}},
      {"provisioner/strategies", {"ps/base", "provisioner/planner"}},
      {"provisioner/claims",
       {"ps/base",
        "ps/proto",
        "provisioner/catalog",
        "provisioner/profile",
        "provisioner/model",
        "provisioner/planner",
        "provisioner/strategies"}},
      {"provisioner/simulator",
       {"ps/base",
        "ps/proto",
        "ps/coordinator",
        "ps/coordinator/state",
        "provisioner/strategies",
        "provisioner/fleet"}},
      {"provisioner/fleet",
       {"ps/base",
        "ps/process",
        "ps/json",
        "ps/proto",
        "ps/emulation",
        "ps/http",
        "provisioner/provider",
        "provisioner/rental"}},
      {"provisioner/provider",
       {"ps/base", "ps/process", "ps/json", "ps/http", "ps/aws", "ps/crypto"}},
      {"provisioner/rental",
       {"ps/base",
        "ps/process",
        "ps/json",
        "ps/http",
        "ps/crypto",
        "ps/proto",
        "provisioner/provider"}},
      {"run/report",
       {"ps/base",
        "ps/json",
        "ps/proto",
        "ps/coordinator",
        "ps/coordinator/meters",
        "ps/coordinator/state",
        "ps/coordinator/checkpoints",
        "kernels",
        "worker/model",
        "worker/data",
        "worker/script",
        "provisioner/profile"}},
      {"run/directory",
       {"ps/base",
        "ps/process",
        "ps/json",
        "ps/proto",
        "ps/crypto",
        "ps/store",
        "ps/net",
        "ps/coordinator",
        "ps/coordinator/state",
        "ps/coordinator/checkpoints",
        "ps/coordinator/fleet",
        "checkpoint",
        "checkpoint/remote",
        "provisioner/fleet",
        "provisioner/rental",
        "worker/use",
        "run/report"}},
      {"run/planning/capacity",
       {"ps/base",
        "ps/proto",
        "provisioner/model",
        "provisioner/planner",
        "provisioner/simulator"}},
      {"run/planning",
       {"ps/base",
        "ps/json",
        "ps/proto",
        "provisioner/profile",
        "provisioner/model",
        "provisioner/unseen",
        "provisioner/planner",
        "provisioner/report",
        "provisioner/strategies",
        "provisioner/simulator",
        "run/report",
        "run/directory",
        "run/planning/capacity"}},
      {"run/page", {"ps/base", "ps/json", "ps/proto", "ps/crypto", "run/report", "run/directory"}},
      {"run",
       {"ps/base",
        "ps/process",
        "ps/json",
        "ps/proto",
        "ps/crypto",
        "ps/net",
        "ps/coordinator",
        "ps/coordinator/state",
        "checkpoint",
        "checkpoint/remote",
        "provisioner/profile",
        "provisioner/fleet",
        "provisioner/rental",
        "worker/data",
        "worker/script",
        "worker/use",
        "run/report",
        "run/directory",
        "run/planning",
        "run/page"}},
      {"psctl/view",
       {"ps/base",
        "ps/json",
        "ps/proto",
        "checkpoint",
        "provisioner/model",
        "provisioner/planner",
        "provisioner/report",
        "provisioner/claims",
        "run/report",
        "run/directory",
        "run/planning"}},
      {"psctl/cli",
       {"ps/base",
        "ps/process",
        "ps/json",
        "ps/proto",
        "run/report",
        "run/directory",
        "run/planning"}},
      {"psctl/runs",
       {"ps/base",
        "ps/json",
        "ps/proto",
        "ps/store",
        "ps/net",
        "ps/coordinator",
        "ps/coordinator/fleet",
        "checkpoint",
        "checkpoint/remote",
        "provisioner/planner",
        "provisioner/report",
        "provisioner/fleet",
        "run/report",
        "run/directory",
        "run/planning",
        "run/page",
        "psctl/view",
        "psctl/remote",
        "psctl/cli"}},
      {"psctl/remote",
       {"ps/base",
        "ps/crypto",
        "ps/json",
        "ps/proto",
        "provisioner/provider",
        "provisioner/rental",
        "provisioner/fleet",
        "run/report",
        "run/directory",
        "psctl/cli"}},
      {"psctl/models",
       {"ps/base",
        "ps/json",
        "ps/proto",
        "ps/coordinator/meters",
        "checkpoint",
        "kernels",
        "worker",
        "worker/model",
        "worker/data",
        "worker/use",
        "run/report",
        "run/directory",
        "psctl/cli",
        "psctl/runs",
        "psctl/view"}},
      {"psctl/cloud",
       {"ps/base",
        "ps/json",
        "ps/proto",
        "provisioner/provider",
        "provisioner/rental",
        "run/report",
        "run/directory",
        "psctl/cli"}},
      {"psctl/traces",
       {"ps/base",
        "ps/json",
        "ps/proto",
        "provisioner/strategies",
        "provisioner/claims",
        "provisioner/simulator",
        "provisioner/fleet",
        "run/report",
        "run/directory",
        "run/planning",
        "psctl/view",
        "psctl/cli",
        "psctl/runs"}},
      {"psctl/plan",
       {"ps/base",
        "ps/process",
        "ps/json",
        "ps/proto",
        "provisioner/catalog",
        "provisioner/profile",
        "provisioner/model",
        "provisioner/planner",
        "provisioner/report",
        "provisioner/strategies",
        "provisioner/simulator",
        "provisioner/fleet",
        "provisioner/provider",
        "run/report",
        "run/directory",
        "run/planning",
        "run/planning/capacity",
        "psctl/view",
        "psctl/cli",
        "psctl/runs",
        "psctl/traces"}},
      {"psctl",
       {"ps/base",
        "ps/process",
        "run/report",
        "run/directory",
        "run/planning",
        "psctl/cli",
        "psctl/cloud",
        "psctl/runs",
        "psctl/models",
        "psctl/traces",
        "psctl/plan"}},
  };
  return layers;
}

/// A library that is not ours: its headers and targets, by prefix, and the folders that may name
/// it.
struct ThirdParty {
  std::string_view name;
  std::vector<std::string_view> headers;
  std::vector<std::string_view> targets;
  std::vector<std::string_view> folders;
};

const std::vector<ThirdParty>& ThirdParties() {
  static const std::vector<ThirdParty> libraries = {
      {"Asio", {"asio.hpp", "asio/"}, {"ps_asio"}, {"ps/net", "tests/net", "tests/tidy"}},
      // Vocabulary: the text of errors anywhere.
      {"fmt",
       {"fmt/"},
       {"ps_fmt"},
       {"ps", "checkpoint", "kernels", "worker", "provisioner", "run", "psctl", "tests"}},
      {"sockets",
       {"sys/socket.h", "sys/un.h", "netinet/", "arpa/", "netdb.h"},
       {},
       // run: its supervisor is handed the run's lock over a pair of them.
       {"ps/net", "run", "tests/net", "tests/e2e", "tests/bench", "tests/psctl", "tests/run"}},
      {"FlatBuffers",
       {"flatbuffers/"},
       {"ps_flatbuffers_lib"},
       {"ps/proto", "tests/proto", "tests/tidy"}},
      {"oneDNN",
       {"dnnl", "oneapi/dnnl"},
       {"ps_dnnl"},
       {"kernels/cpu", "tests/kernels", "tests/bench", "tests/tidy"}},
      {"OpenMP", {"omp.h"}, {"gomp", "OpenMP::"}, {"kernels/cpu"}},
      {"CUDA",
       {"cuda", "cublas", "cudnn", "nccl"},
       {"CUDA::"},
       {"kernels/cuda", "tests/cuda_emulation", "tests/kernels", "tests/bench"}},
      {"ISA-L", {"isa-l/", "isa-l.h"}, {"ps_isal"}, {"worker/data"}},
      {"libjpeg-turbo",
       {"jpeglib.h", "jerror.h"},
       {"ps_jpeg"},
       {"worker/data/pictures", "tests/worker"}},
      {"libpng", {"png.h"}, {"ps_png"}, {"worker/data/pictures"}},
      {"zlib", {"zlib.h"}, {"ZLIB::"}, {"tests/worker", "tests/cuda_emulation"}},
      {"CLI11", {"CLI/"}, {"CLI11::", "ps_cli11"}, {"psctl/cli"}},
      {"RocksDB", {"rocksdb/"}, {"ps_rocksdb"}, {"checkpoint/storage", "tests/checkpoint"}},
      {"zstd", {"zstd"}, {"ps_zstd"}, {"checkpoint", "tests/checkpoint"}},
      {"libcurl", {"curl/"}, {"ps_curl", "CURL::"}, {"ps/http"}},
      {"libmicrohttpd", {"microhttpd.h"}, {"ps_microhttpd"}, {"run/page"}},
      {"OpenSSL", {"openssl/"}, {"ps_openssl", "OpenSSL::"}, {"ps/crypto", "tests/crypto"}},
      {"GoogleTest", {"gtest/", "gmock/"}, {"GTest::"}, {"tests"}},
  };
  return libraries;
}

bool IsLeanProgram(std::string_view target) {
  return target == "ps_server" || target == "ps_worker";
}

bool IsForPsctl(std::string_view target) {
  return target == "ps_planning_files" || target == "ps_file_manuals" ||
         target.starts_with("provisioner_") || target.starts_with("run_") ||
         target.starts_with("psctl_");
}

bool IsInside(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && path.size() > folder.size() && path[folder.size()] == '/';
}

bool StartsWithAny(std::string_view text, const std::vector<std::string_view>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [text](std::string_view prefix) {
    return text.starts_with(prefix);
  });
}

bool IsInsideAny(std::string_view path, const std::vector<std::string_view>& folders) {
  return std::any_of(folders.begin(), folders.end(), [path](std::string_view folder) {
    return IsInside(path, folder);
  });
}

std::string Join(const std::vector<std::string_view>& words) {
  std::string out;
  for (const std::string_view word : words) {
    out += (out.empty() ? "" : ", ") + std::string(word);
  }
  return out;
}

std::string Quoted(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

/// What is between the delimiters of an include directive, "" when the line is none.
std::string_view IncludedBy(std::string_view line, char open, char close) {
  const size_t start = line.find_first_not_of(" \t");
  if (start == std::string_view::npos || !line.substr(start).starts_with("#include")) {
    return {};
  }
  const size_t begin = line.find(open);
  const size_t end = begin == std::string_view::npos ? begin : line.find(close, begin + 1);
  if (end == std::string_view::npos) {
    return {};
  }
  return line.substr(begin + 1, end - begin - 1);
}

/// The message for a third-party header, "" when it is fine.
std::string ThirdPartyProblem(std::string_view path, std::string_view header) {
  for (const ThirdParty& library : ThirdParties()) {
    if (StartsWithAny(header, library.headers) && !IsInsideAny(path, library.folders)) {
      return std::string(library.name) + " is named in " + Join(library.folders) + " alone";
    }
  }
  return {};
}

bool IsThirdParty(std::string_view header) {
  return std::any_of(
      ThirdParties().begin(), ThirdParties().end(), [header](const ThirdParty& library) {
        return StartsWithAny(header, library.headers);
      });
}

/// The message for an #include "...", "" when it is fine.
std::string OwnIncludeProblem(const Tree& tree, std::string_view path, std::string_view included) {
  const bool is_generated = included.ends_with("_generated.h");
  if (is_generated && included.find('/') == std::string_view::npos) {
    return LayerOf(path) == "ps/proto" ? "" : "flatc's headers are ps/proto's";
  }
  if (IsThirdParty(included)) {
    return ThirdPartyProblem(path, included);
  }
  const std::string_view to = LayerOf(included);
  if (to.empty() || (!is_generated && FindFile(tree, included) == nullptr)) {
    return Quoted(included) + " is no file of this repository, written from its root";
  }
  if (!MayUse(LayerOf(path), to)) {
    return std::string(LayerOf(path)) + " may not use " + std::string(to);
  }
  return {};
}

std::string LinkProblem(
    std::string_view path,
    std::string_view library,
    const std::map<std::string, std::string_view>& layer_of_target) {
  for (const ThirdParty& third_party : ThirdParties()) {
    if (StartsWithAny(library, third_party.targets)) {
      return IsInsideAny(path, third_party.folders)
                 ? ""
                 : std::string(third_party.name) + " is linked in " + Join(third_party.folders) +
                       " alone";
    }
  }
  if (library == "ps_options" || library == "Threads::Threads") {
    return {};
  }
  const auto it = layer_of_target.find(std::string(library));
  if (it == layer_of_target.end()) {
    return Quoted(library) + " is no target of this project; third-party ones have a table here";
  }
  if (!MayUse(LayerOf(path), it->second)) {
    return std::string(LayerOf(path)) + " may not link " + std::string(library) + " of " +
           std::string(it->second);
  }
  return {};
}

}  // namespace

std::string_view LayerOf(std::string_view path) {
  for (const Layer& layer : Layers()) {
    if (IsInside(path, layer.folder)) {
      return layer.folder;
    }
  }
  return IsInside(path, "tests") ? "tests" : std::string_view();
}

bool MayUse(std::string_view from, std::string_view to) {
  if (from == to || from == "tests") {
    return true;
  }
  for (const Layer& layer : Layers()) {
    if (layer.folder == from) {
      return std::find(layer.uses.begin(), layer.uses.end(), to) != layer.uses.end();
    }
  }
  return false;
}

std::vector<Finding> CheckIncludes(const Tree& tree) {
  std::vector<Finding> findings;
  for (const File& file : tree) {
    if (!IsCode(file.path)) {
      continue;
    }
    const std::string code = BlankOut(file.text, Blank::kComments);
    int number = 0;
    for (const std::string_view line : Lines(code)) {
      ++number;
      std::string problem;
      if (const std::string_view own = IncludedBy(line, '"', '"'); !own.empty()) {
        problem = OwnIncludeProblem(tree, file.path, own);
      } else if (const std::string_view other = IncludedBy(line, '<', '>'); !other.empty()) {
        problem = LayerOf(other).empty() ? ThirdPartyProblem(file.path, other)
                                         : "headers of this repository are included with quotes";
      }
      if (!problem.empty()) {
        findings.push_back({file.path, number, problem});
      }
    }
  }
  return findings;
}

std::vector<Finding> CheckLinks(const Tree& tree) {
  std::map<std::string, std::string_view> layer_of_target;
  for (const File& file : tree) {
    if (IsCMake(file.path)) {
      for (const CMakeTarget& target : ReadTargets(file.text)) {
        if (!target.name.empty() && target.is_definition) {
          layer_of_target.emplace(target.name, LayerOf(file.path));
        }
      }
    }
  }
  std::vector<Finding> findings;
  for (const File& file : tree) {
    if (!IsCMake(file.path) || LayerOf(file.path).empty()) {
      continue;
    }
    for (const CMakeTarget& target : ReadTargets(file.text)) {
      for (const std::string& library : target.links) {
        const std::string problem = LinkProblem(file.path, library, layer_of_target);
        if (!problem.empty()) {
          findings.push_back({file.path, target.line, target.name + ": " + problem});
        }
      }
    }
  }
  return findings;
}

std::vector<Finding> CheckPrograms(const Tree& tree) {
  std::map<std::string, std::vector<std::string>> links;
  std::map<std::string, Finding> programs;
  for (const File& file : tree) {
    if (!IsCMake(file.path)) {
      continue;
    }
    for (const CMakeTarget& target : ReadTargets(file.text)) {
      std::vector<std::string>& all = links[target.name];
      all.insert(all.end(), target.links.begin(), target.links.end());
      if (target.is_definition && IsLeanProgram(target.name)) {
        programs.insert({target.name, {file.path, target.line, ""}});
      }
    }
  }
  std::vector<Finding> findings;
  for (const auto& [program, place] : programs) {
    std::map<std::string, std::string> way = {{program, program}};  // to what it links
    std::vector<std::string> open = {program};
    while (!open.empty()) {
      const std::string target = open.back();
      open.pop_back();
      if (IsForPsctl(target)) {
        findings.push_back({place.path, place.line, way[target] + ": only psctl needs that"});
      }
      for (const std::string& next : links[target]) {
        if (way.insert({next, way[target] + " links " + next}).second) {
          open.push_back(next);
        }
      }
    }
  }
  return findings;
}

}  // namespace ps::tidy
