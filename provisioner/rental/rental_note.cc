#include "provisioner/rental/rental_note.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/json/json_reader.h"
#include "ps/json/json_writer.h"

namespace ps::provisioner {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNoteBytesMax = size_t{1} << 20;

void WritePool(JsonWriter* json, const Pool& pool) {
  json->BeginObject();
  json->Field("type", pool.type);
  json->Field("zone", pool.zone);
  json->Field("is_spot", pool.is_spot);
  json->EndObject();
}

std::string TextOf(const RentalNote& note) {
  JsonWriter json;
  json.BeginObject();
  json.Field("number", note.number);
  json.Field("token", note.token);
  json.BeginList("pools");
  for (const Pool& pool : note.pools) {
    WritePool(&json, pool);
  }
  json.EndList();
  json.Field("machine", note.machine);
  json.Key("pool");
  WritePool(&json, note.pool);
  json.Field("started_us", note.started_us);
  json.Field("ended_us", note.ended_us);
  json.Field("usd", note.usd);
  if (note.is_free) {
    json.Field("is_free", note.is_free);
  }
  json.Field("why", note.why);
  if (note.seat) {
    json.BeginObject("seat");
    json.Field("kind", proto::ProcessKindName(note.seat->kind));
    json.Field("index", note.seat->index);
    json.Field("launch", note.seat->launch.value);
    json.EndObject();
  }
  json.EndObject();
  return std::move(json).Take();
}

template <typename T>
Status ReadNumber(JsonReader* json, T* value) {
  PS_ASSIGN(const std::string_view text, json->Number());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size()
             ? Status::Ok()
             : json->Fail("the number does not fit its field");
}

Status ReadText(JsonReader* json, std::string* value) {
  PS_ASSIGN(*value, json->Text());
  return Status::Ok();
}

Status ReadPool(JsonReader* json, Pool* pool) {
  return json->Object([&](const std::string& name, Place) -> Status {
    if (name == "type") {
      return ReadText(json, &pool->type);
    }
    if (name == "zone") {
      return ReadText(json, &pool->zone);
    }
    if (name == "is_spot") {
      PS_ASSIGN(const std::string_view word, json->Word());
      pool->is_spot = word == "true";
      return Status::Ok();
    }
    return json->Fail("no field of a pool: " + Quoted(name));
  });
}

Status ReadSeat(JsonReader* json, RentalSeat* seat) {
  return json->Object([&](const std::string& name, Place) -> Status {
    if (name == "kind") {
      PS_ASSIGN(const std::string kind, json->Text());
      seat->kind = kind == proto::ProcessKindName(proto::ProcessKind::kServer)
                       ? proto::ProcessKind::kServer
                       : proto::ProcessKind::kWorker;
      return Status::Ok();
    }
    if (name == "index") {
      return ReadNumber(json, &seat->index);
    }
    if (name == "launch") {
      return ReadNumber(json, &seat->launch.value);
    }
    return json->Fail("no field of a seat: " + Quoted(name));
  });
}

Status ReadField(JsonReader* json, const std::string& name, RentalNote* note) {
  if (name == "number") {
    return ReadNumber(json, &note->number);
  }
  if (name == "token") {
    return ReadText(json, &note->token);
  }
  if (name == "pools") {
    return json->List([&] { return ReadPool(json, &note->pools.emplace_back()); });
  }
  if (name == "machine") {
    return ReadText(json, &note->machine);
  }
  if (name == "pool") {
    return ReadPool(json, &note->pool);
  }
  if (name == "started_us") {
    return ReadNumber(json, &note->started_us);
  }
  if (name == "ended_us") {
    return ReadNumber(json, &note->ended_us);
  }
  if (name == "usd") {
    return ReadNumber(json, &note->usd);
  }
  if (name == "is_free") {
    PS_ASSIGN(const std::string_view word, json->Word());
    note->is_free = word == "true";
    return Status::Ok();
  }
  if (name == "why") {
    return ReadText(json, &note->why);
  }
  if (name == "seat") {
    return ReadSeat(json, &note->seat.emplace());
  }
  return json->Fail("no field of a rental: " + Quoted(name));
}

Result<RentalNote> NoteOf(const std::string& text, const std::string& path) {
  JsonReader json(text, path, JsonComments::kRefused);
  RentalNote note;
  PS_TRY(json.Begin());
  PS_TRY(
      json.Object([&](const std::string& name, Place) { return ReadField(&json, name, &note); }));
  PS_TRY(json.End());
  if (note.number == 0 || note.token.empty()) {
    return json.Fail("a rental has a number and a token");
  }
  return note;
}

}  // namespace

std::string RentalFiles::PathOf(uint64_t number) const {
  return fmt::format("{}/{}.json", folder_, number);
}

Status RentalFiles::Write(const RentalNote& note) {
  PS_TRY(CreateDirectories(folder_));
  return WriteFileAtomically(PathOf(note.number), TextOf(note), 0600);
}

Status RentalFiles::Remove(uint64_t number) {
  std::error_code error;
  fs::remove(PathOf(number), error);
  return error ? IoError("cannot remove", PathOf(number)) : Status::Ok();
}

Result<std::vector<RentalNote>> RentalFiles::Load() const {
  std::vector<RentalNote> notes;
  std::error_code error;
  if (!fs::exists(folder_, error) && !error) {
    return notes;
  }
  fs::directory_iterator files(folder_, error);
  for (; !error && files != fs::directory_iterator(); files.increment(error)) {
    const std::string path = files->path().string();
    if (!path.ends_with(".json")) {
      continue;  // what an interrupted write left
    }
    PS_ASSIGN(const std::string text, ReadSmallFile(path, kNoteBytesMax));
    Result<RentalNote> note = NoteOf(text, path);
    if (!note.ok()) {
      return Status::Corruption(fmt::format(
          "{}; it tells of a machine that may still cost: see `psctl cloud list`, then remove the "
          "file",
          note.status().message()));
    }
    notes.push_back(std::move(note).value());
  }
  if (error) {
    return IoError("cannot read", folder_);
  }
  std::ranges::sort(notes, {}, &RentalNote::number);
  return notes;
}

}  // namespace ps::provisioner
