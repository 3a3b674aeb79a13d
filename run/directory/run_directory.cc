#include "run/directory/run_directory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/crypto/token_file.h"

namespace ps::run {
namespace {

constexpr int kAttemptsMax = 1000;
constexpr size_t kTokenBytes = 32;

/// What the name becomes on disk: no separators, nothing hidden, nothing a shell would read.
std::string FileNameOf(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                          (c == '.' && !out.empty());
    out += is_plain ? c : '_';
  }
  return out.empty() ? "job" : out.substr(0, 100);
}

Status MakeDirectory(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0) {
    return Status::Io(fmt::format("cannot make the directory {}: {}", path, std::strerror(errno)));
  }
  return Status::Ok();
}

Status WithAdvice(const Status& status) {
  return Status(
      status.code(),
      std::string(status.message()) +
          "; choose a place that can be written with --set run.directory=DIR");
}

Result<std::string> MakeUniqueDirectory(const std::string& stem) {
  for (int attempt = 1; attempt <= kAttemptsMax; ++attempt) {
    const std::string path = attempt == 1 ? stem : fmt::format("{}-{}", stem, attempt);
    if (::mkdir(path.c_str(), 0755) == 0) {
      PS_TRY(SyncDirectory(std::filesystem::path(path).parent_path().string()));
      return path;
    }
    if (errno != EEXIST) {
      return Status::Io(
          fmt::format("cannot make the directory {}: {}", path, std::strerror(errno)));
    }
  }
  return Status::Io(fmt::format("{} and {} like it exist already", stem, kAttemptsMax));
}

}  // namespace

std::string RunTimestamp(int64_t unix_micros) {
  const time_t seconds = unix_micros / 1'000'000;
  tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &utc);
  return text;
}

std::string JobNameOf(std::string_view directory_name) {
  // From the right: an optional "-n", then "-hhmmss", then "-yyyymmdd".
  const auto take_number = [](std::string_view* text, size_t digits) {
    const size_t dash = text->rfind('-');
    if (dash == std::string_view::npos || dash + 1 == text->size()) {
      return false;
    }
    const std::string_view number = text->substr(dash + 1);
    if (number.find_first_not_of("0123456789") != std::string_view::npos ||
        (digits > 0 && number.size() != digits)) {
      return false;
    }
    *text = text->substr(0, dash);
    return true;
  };
  std::string_view plain = directory_name;
  if (take_number(&plain, 6) && take_number(&plain, 8)) {
    return std::string(plain);
  }
  plain = directory_name;
  if (take_number(&plain, 0) && take_number(&plain, 6) && take_number(&plain, 8)) {
    return std::string(plain);
  }
  return std::string(directory_name);
}

Result<std::string> MakeToken() {
  std::array<unsigned char, kTokenBytes> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Status::Io(fmt::format("getrandom: {}", std::strerror(errno)));
  }
  std::string token;
  for (const unsigned char byte : bytes) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    token += kDigits[byte >> 4];
    token += kDigits[byte & 15];
  }
  return token;
}

Result<RunDirectory> RunDirectory::Create(
    const std::string& parent, const std::string& name, int64_t unix_micros, bool is_encrypted) {
  const std::string absolute_parent = AbsolutePath(parent);
  if (Status made = CreateDirectories(absolute_parent); !made.ok()) {
    return WithAdvice(std::move(made).Annotate(absolute_parent));
  }
  Result<std::string> root = MakeUniqueDirectory(
      absolute_parent + "/" + FileNameOf(name) + "-" + RunTimestamp(unix_micros));
  if (!root.ok()) {
    return WithAdvice(root.status());
  }
  RunDirectory run;
  run.paths_.root = *root;
  if (const Status filled = run.Fill(is_encrypted); !filled.ok()) {
    run.Discard();
    return WithAdvice(filled);
  }
  return run;
}

Status RunDirectory::CheckParent(const std::string& parent) {
  std::filesystem::path place = AbsolutePath(parent);
  std::error_code error;
  while (!std::filesystem::exists(place, error) && place.has_relative_path()) {
    place = place.parent_path();
  }
  if (!std::filesystem::is_directory(place, error)) {
    return WithAdvice(Status::Io(fmt::format("{} is no directory", place.string())));
  }
  std::string probe = place.string() + "/.spotps-XXXXXX";
  if (::mkdtemp(probe.data()) == nullptr) {
    return WithAdvice(Status::Io(
        fmt::format("cannot make a directory in {}: {}", place.string(), std::strerror(errno))));
  }
  ::rmdir(probe.c_str());
  return Status::Ok();
}

Status RunDirectory::Fill(bool is_encrypted) {
  PS_ASSIGN(lock_, FileLock::Take(paths_.lock(), fmt::format("{}\n", ::getpid())));
  PS_TRY(MakeDirectory(paths_.logs(), 0755));
  PS_ASSIGN(token_, MakeToken());
  crypto::TokenFile file{token_, ""};
  if (is_encrypted) {
    authority_ = crypto::Authority::Make();
    PS_TRY(WriteFileAtomically(paths_.authority(), authority_->pem(), 0600));
    // For whatever is started by hand.
    file.pem = authority_->Issue("by hand", {crypto::kServerRole, crypto::kWorkerRole});
  }
  PS_TRY(WriteFileAtomically(paths_.token(), file.Text(), 0600));
  return ReadAge();
}

Result<RunDirectory> RunDirectory::Reopen(RunPaths paths, FileLock lock) {
  RunDirectory run;
  run.paths_ = std::move(paths);
  run.lock_ = std::move(lock);
  PS_TRY(run.lock_.Rewrite(fmt::format("{}\n", ::getpid()), run.paths_.lock()));
  PS_ASSIGN(const crypto::TokenFile token, crypto::ReadTokenFile(run.paths_.token()));
  run.token_ = token.token;
  if (!token.pem.empty()) {
    const std::string path = run.paths_.authority();
    PS_ASSIGN(const std::string pem, ReadSmallFile(path, crypto::kTokenFileBytesMax));
    PS_ASSIGN(run.authority_, crypto::Authority::Read(pem).Annotate(path));
  }
  PS_TRY(run.ReadAge());
  return run;
}

Status RunDirectory::ReadAge() {
  struct stat info = {};
  if (::stat(paths_.token().c_str(), &info) != 0) {
    return IoError("cannot read", paths_.token());
  }
  begun_us_ = int64_t{info.st_mtim.tv_sec} * 1'000'000 + info.st_mtim.tv_nsec / 1000;
  return Status::Ok();
}

void RunDirectory::Discard() const {
  std::error_code ignored;  // what stays is small, and the run has failed of something else
  std::filesystem::remove_all(paths_.root, ignored);
}

bool RunDirectory::IsStillThere() const {
  struct stat own = {};
  struct stat there = {};
  return ::fstat(lock_.fd(), &own) == 0 && ::stat(paths_.lock().c_str(), &there) == 0 &&
         own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

Result<AppendFile> AppendFile::Open(const std::string& path) {
  AppendFile file;
  file.fd_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.fd_.is_open()) {
    return Status::Io(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
  file.path_ = path;
  return file;
}

std::optional<std::string> AppendFile::Append(std::string_view record) {
  const off_t end = ::lseek(fd_.get(), 0, SEEK_END);
  ssize_t n = 0;
  do {
    n = ::write(fd_.get(), record.data(), record.size());
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(record.size())) {
    return std::nullopt;
  }
  const std::string why = n < 0 ? std::strerror(errno) : "no space for a whole record";
  const bool is_whole = n <= 0 || (end >= 0 && ::ftruncate(fd_.get(), end) == 0);
  if (std::exchange(has_lost_records_, true)) {
    return std::nullopt;
  }
  return "records are being lost: write " + path_ + ": " + why +
         (is_whole ? "" : "; the file ends with a part of one") + "; training goes on";
}

}  // namespace ps::run
