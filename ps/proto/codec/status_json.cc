// The status as JSON, by the lists of fields: names and order are those of messages.fbs.

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "ps/json/json_writer.h"
#include "ps/proto/codec/control_fields.h"
#include "ps/proto/codec/shard_fields.h"
#include "ps/proto/codec/worker_fields.h"

namespace ps::proto {
namespace {

template <typename T>
void PrintValue(const T& value, JsonWriter* json);

template <typename T>
void PrintValue(const std::vector<T>& items, JsonWriter* json) {
  json->BeginList();
  for (const T& item : items) {
    PrintValue(item, json);
  }
  json->EndList();
}

template <typename T>
void PrintValue(const T& value, JsonWriter* json) {
  if constexpr (std::is_same_v<T, Mode>) {
    json->Value(ModeName(value));
  } else if constexpr (std::is_same_v<T, Metric>) {
    json->Value(MetricName(value));
  } else if constexpr (requires { StateName(value); }) {
    json->Value(StateName(value));
  } else if constexpr (std::is_same_v<T, EventCode>) {
    json->Value(EventCodeName(value));
  } else if constexpr (std::is_same_v<T, EventKind>) {
    json->Value(EventKindName(value));
  } else if constexpr (std::is_same_v<T, Encoding>) {
    json->Value(value.ToText());
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    json->Value(value);
  } else if constexpr (kIsId<T>) {
    json->Value(value.value);
  } else {
    json->BeginObject();
    ListFields(value, [json](const auto&... fields) {
      ((json->Key(fields.kRules.name), PrintValue(fields.value, json)), ...);
    });
    json->EndObject();
  }
}

}  // namespace

std::string StatusToJson(const JobStatus& status) {
  JsonWriter json;
  PrintValue(status, &json);
  return std::move(json).Take();
}

}  // namespace ps::proto
