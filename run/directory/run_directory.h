#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ps/base/file.h"
#include "ps/base/status.h"
#include "ps/base/unique_fd.h"
#include "ps/crypto/certificates.h"
#include "run/directory/files.h"

namespace ps::run {

/// Where the parts of a run directory are; says nothing about whether they exist.
struct RunPaths {
  std::string root;  // absolute

  std::string config() const { return root + "/job.json"; }

  std::string control() const { return root + "/control.sock"; }

  std::string token() const { return root + "/token"; }

  /// What signs the run's certificates.
  std::string authority() const { return root + "/authority.pem"; }

  /// Tokens of the processes that psctl starts.
  std::string tokens() const { return root + "/tokens"; }

  std::string address() const { return root + "/coordinator.addr"; }

  std::string rentals() const { return root + "/rentals"; }

  /// Where the run is, when that is elsewhere: HeadFile.
  std::string head() const { return root + "/head.json"; }

  std::string lock() const { return root + "/psctl.pid"; }

  /// What psctl says of a detached run.
  std::string run_log() const { return root + "/run.log"; }

  /// The coordinator's: what another one goes on from.
  std::string journal() const { return root + "/journal"; }

  /// Which class of the model is which label of the data: line n has the label of class n - 1.
  /// Missing: a class is called as its number.
  std::string classes() const { return root + "/classes.txt"; }

  std::string logs() const { return root + "/logs"; }

  std::string coordinator_log() const { return logs() + "/coordinator.log"; }

  /// What happened in the run, a line of JSON for each event.
  std::string events() const { return root + "/events.jsonl"; }

  std::string metrics() const { return root + "/metrics.jsonl"; }

  /// The folder of TensorBoard's event files.
  std::string tensorboard() const { return root + "/tensorboard"; }

  /// Where checkpoints go unless the job says otherwise.
  std::string checkpoints() const { return root + "/checkpoints"; }

  /// The status page's key, and its whole link, while it is served; for the owner alone.
  std::string page_key() const { return root + "/page.key"; }

  std::string page_link() const { return root + "/page.link"; }

  std::string profile() const { return root + "/profile.json"; }

  std::string model() const { return root + "/model.safetensors"; }

  /// What the model's file says of itself, from the beginning on.
  std::string model_card() const { return root + "/model_card.json"; }

  /// What worker.program has said that it trains, with the first values.
  std::string described() const { return root + "/described.safetensors"; }

  std::string summary_json() const { return root + "/summary.json"; }

  std::string summary_text() const { return root + "/summary.txt"; }
};

/// The directory of the run of this process. Its lock file is held until the object goes, or the
/// process dies: that is how others know that the run goes on.
class RunDirectory {
 public:
  /// Makes `<parent>/<name>-<UTC yyyymmdd-hhmmss>[-n]` with logs/, the token and the lock.
  /// Unique even when two runs start in the same second. `is_encrypted`: with an authority, and a
  /// certificate beside the token. Errors: kIo with what to set.
  static Result<RunDirectory> Create(
      const std::string& parent,
      const std::string& name,
      int64_t unix_micros,
      bool is_encrypted = false);

  /// The directory of a run whose coordinator was killed; `lock` is its lock. Errors: kIo.
  static Result<RunDirectory> Reopen(RunPaths paths, FileLock lock);

  /// Whether Create could make one in `parent`; leaves nothing there. Errors: as Create.
  static Status CheckParent(const std::string& parent);

  /// Removes it with all that is in it: the run did not begin, so there is nothing to read.
  void Discard() const;

  /// False when somebody has removed it, or moved it away, and also when there is another one in
  /// its place: servers make the folders that they write to.
  bool IsStillThere() const;

  const RunPaths& paths() const { return paths_; }

  const std::string& token() const { return token_; }

  /// None when the run is not encrypted.
  const std::optional<crypto::Authority>& authority() const { return authority_; }

  const FileLock& lock() const { return lock_; }

  /// When the run began, in microseconds since 1970 UTC: its logs count from there.
  int64_t begun_us() const { return begun_us_; }

  Status WriteConfig(std::string_view json) const {
    return WriteFileAtomically(paths_.config(), json);
  }

  /// "HOST:PORT" of the coordinator, for workers that are started by hand.
  Status WriteAddress(const std::string& address) const {
    return WriteFileAtomically(paths_.address(), address + "\n");
  }

 private:
  RunDirectory() = default;

  /// Makes what is in it from the beginning.
  Status Fill(bool is_encrypted);
  /// The token's file is never written again, so its age is that of the run.
  Status ReadAge();

  RunPaths paths_;
  std::string token_;
  std::optional<crypto::Authority> authority_;
  int64_t begun_us_ = 0;
  FileLock lock_;
};

/// "20240131-235959" in UTC.
std::string RunTimestamp(int64_t unix_micros);

/// The job's name in a run directory's: "mnist-20240131-235959-2" is "mnist".
std::string JobNameOf(std::string_view directory_name);

/// 32 bytes of the system's random source as 64 hex digits. Errors: kIo.
Result<std::string> MakeToken();

/// Appends records to a file, each in full or not at all. A full disk costs records, not the run:
/// the first failure is said.
class AppendFile {
 public:
  AppendFile() = default;

  /// Errors: kIo with the path.
  static Result<AppendFile> Open(const std::string& path);
  /// Returns a text to show when this is the first record that was lost.
  std::optional<std::string> Append(std::string_view record);

 private:
  UniqueFd fd_;
  std::string path_;
  bool has_lost_records_ = false;
};

}  // namespace ps::run
