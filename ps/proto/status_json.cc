// The status as JSON, field by field as messages.fbs lists them: without a second list of them.

#include <algorithm>

#include "flatbuffers/reflection.h"
#include "messages_bfbs_generated.h"
#include "messages_generated.h"
#include "ps/proto/control_fields.h"
#include "ps/proto/json_writer.h"
#include "ps/proto/pack.h"
#include "ps/proto/shard_fields.h"
#include "ps/proto/worker_fields.h"

namespace ps::proto {
namespace {

using flatbuffers::Struct;
using flatbuffers::Table;
using reflection::BaseType;

class Printer {
 public:
  explicit Printer(const reflection::Schema& schema) : schema_(schema) {}

  /// T: Table or Struct.
  template <typename T>
  void Object(const reflection::Object& object, const T& value) {
    std::vector<const reflection::Field*> fields(object.fields()->begin(), object.fields()->end());
    std::ranges::sort(fields, {}, [](const reflection::Field* field) { return field->id(); });
    json_.BeginObject();
    for (const reflection::Field* field : fields) {
      json_.Key(field->name()->string_view());
      if constexpr (std::is_same_v<T, Table>) {
        TableField(*field, value);
      } else {
        FieldScalar(*field, value);
      }
    }
    json_.EndObject();
  }

  std::string Take() && { return std::move(json_).Take(); }

 private:
  const reflection::Object& ObjectOf(const reflection::Field& field) const {
    const auto index = static_cast<flatbuffers::uoffset_t>(field.type()->index());
    return *schema_.objects()->Get(index);
  }

  void TableField(const reflection::Field& field, const Table& value) {
    switch (field.type()->base_type()) {
      case BaseType::String: {
        const flatbuffers::String* text = flatbuffers::GetFieldS(value, field);
        return json_.Value(text == nullptr ? std::string_view() : text->string_view());
      }
      case BaseType::Vector:
        return List(field, flatbuffers::GetFieldAnyV(value, field));
      case BaseType::Obj:
        return ObjectOf(field).is_struct()
                   ? Part(ObjectOf(field), flatbuffers::GetFieldStruct(value, field))
                   : Part<Table>(ObjectOf(field), flatbuffers::GetFieldT(value, field));
      default:
        return FieldScalar(field, value);
    }
  }

  template <typename T>
  void Part(const reflection::Object& object, const T* value) {
    if (value == nullptr) {
      json_.Raw("null");
    } else {
      Object(object, *value);
    }
  }

  template <typename T>
  void FieldScalar(const reflection::Field& field, const T& value) {
    Scalar(
        field,
        field.type()->base_type(),
        [&] { return flatbuffers::GetAnyFieldI(value, field); },
        [&] { return flatbuffers::GetAnyFieldF(value, field); });
  }

  void List(const reflection::Field& field, const flatbuffers::VectorOfAny* items) {
    const BaseType type = field.type()->element();
    json_.BeginList();
    for (size_t i = 0; items != nullptr && i < items->size(); ++i) {
      if (type != BaseType::Obj) {
        Scalar(
            field,
            type,
            [&] { return flatbuffers::GetAnyVectorElemI(items, type, i); },
            [&] { return flatbuffers::GetAnyVectorElemF(items, type, i); });
      } else if (const reflection::Object& object = ObjectOf(field); object.is_struct()) {
        const auto bytes = static_cast<size_t>(object.bytesize());
        Object(object, *flatbuffers::GetAnyVectorElemAddressOf<const Struct>(items, i, bytes));
      } else {
        Object(object, *flatbuffers::GetAnyVectorElemPointer<const Table>(items, i));
      }
    }
    json_.EndList();
  }

  /// Only one of the two is called: NaN has no integer.
  template <typename I, typename F>
  void Scalar(const reflection::Field& field, BaseType type, I as_integer, F as_real) {
    if (type == BaseType::Float) {
      json_.Value(static_cast<float>(as_real()));
    } else if (type == BaseType::Double) {
      json_.Value(as_real());
    } else if (type == BaseType::Bool) {
      json_.Value(as_integer() != 0);
    } else if (field.type()->index() >= 0) {
      const auto index = static_cast<flatbuffers::uoffset_t>(field.type()->index());
      const auto* name = schema_.enums()->Get(index)->values()->LookupByKey(as_integer());
      json_.Value(name == nullptr ? "unknown" : name->name()->string_view());
    } else if (type == BaseType::ULong) {
      json_.Value(static_cast<uint64_t>(as_integer()));
    } else {
      json_.Value(as_integer());
    }
  }

  const reflection::Schema& schema_;
  JsonWriter json_;
};

}  // namespace

std::string StatusToJson(const JobStatus& status) {
  const reflection::Schema& schema = *reflection::GetSchema(wire::JobStatusBinarySchema::data());
  codec::Fbb builder;
  builder.Finish(codec::Pack<wire::JobStatus>(builder, status));
  Printer printer(schema);
  printer.Object(*schema.root_table(), *flatbuffers::GetRoot<Table>(builder.GetBufferPointer()));
  return std::move(printer).Take();
}

}  // namespace ps::proto
