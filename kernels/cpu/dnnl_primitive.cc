#include "kernels/cpu/dnnl_primitive.h"

#include <string>

#include "kernels/cpu/vector.h"
#include "ps/base/buffer.h"
#include "ps/base/check.h"

namespace ps::kernels {

const dnnl::engine& CpuEngine() {
  static const dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);
  return kEngine;
}

namespace {

/// A CPU stream runs a primitive inside the call; one a thread, so that none is shared.
dnnl::stream& ThisThreadsStream() {
  thread_local dnnl::stream stream(CpuEngine());
  return stream;
}

}  // namespace

Desc ImageDesc(int64_t n, int64_t c, int64_t h, int64_t w, Type type) {
  return PlainDesc({n, c, h, w}, Tag::nhwc, type);
}

Desc PlainDesc(const dnnl::memory::dims& dims, Tag tag, Type type) {
  return {dims, type, tag};
}

FactorType::FactorType(Precision precision) {
  if (precision == Precision::kBf16) {
    constexpr auto kNative = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    is_rounded = (isa & kNative) != kNative;
    type = is_rounded ? Type::f32 : Type::bf16;
  }
}

dnnl::primitive_attr UserScratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Primitive::Primitive(
    dnnl::primitive primitive,
    const Desc& scratch,
    Workspace* workspace,
    std::initializer_list<Slot> slots)
    : primitive_(std::move(primitive)), workspace_(workspace) {
  workspace->Reserve(scratch.get_size());
  arguments_.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratch, CpuEngine(), DNNL_MEMORY_NONE));
  for (const auto& [index, desc] : slots) {
    if (!desc.is_zero()) {
      arguments_.emplace(index, dnnl::memory(desc, CpuEngine(), DNNL_MEMORY_NONE));
    }
  }
}

Primitive Primitive::MakeReorder(const Desc& from, const Desc& to, Workspace* workspace) {
  const dnnl::reorder::primitive_desc pd(CpuEngine(), from, CpuEngine(), to, UserScratch());
  return {
      dnnl::reorder(pd),
      pd.scratchpad_desc(),
      workspace,
      {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

void Primitive::Run(std::initializer_list<Binding> bindings) {
  arguments_.at(DNNL_ARG_SCRATCHPAD).set_data_handle(workspace_->data());
  for (const auto& [index, memory] : bindings) {
    if (memory == nullptr) {
      continue;
    }
    const auto slot = arguments_.find(index);
    PS_CHECK(slot != arguments_.end()) << "no slot " << index;
    slot->second.set_data_handle(const_cast<void*>(memory));
  }
  const Status status =
      CatchDnnl("run", [&] { primitive_.execute(ThisThreadsStream(), arguments_); });
  PS_CHECK(status.ok()) << status;  // what can fail, failed when the primitive was made
}

size_t Copies::Reserve(size_t size_bytes) {
  const size_t offset = size_;
  size_ += (size_bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  workspace_->ReserveCopies(size_);
  return offset;
}

Relayout Relayout::ToPrimitive(
    const Desc& given, const Desc& wanted, bool is_rounded, Copies* copies) {
  Relayout result;
  if (given != wanted) {
    result.reorder_ = Primitive::MakeReorder(given, wanted, copies->workspace());
  }
  if (given != wanted || is_rounded) {
    result.workspace_ = copies->workspace();
    result.offset_ = copies->Reserve(wanted.get_size());
  }
  if (is_rounded) {
    result.rounded_ = static_cast<int64_t>(wanted.get_size() / sizeof(float));
  }
  return result;
}

Relayout Relayout::FromPrimitive(const Desc& produced, const Desc& canonical, Copies* copies) {
  Relayout result;
  if (canonical != produced) {
    result.reorder_ = Primitive::MakeReorder(produced, canonical, copies->workspace());
    result.workspace_ = copies->workspace();
    result.offset_ = copies->Reserve(produced.get_size());
  }
  return result;
}

const void* Relayout::Load(const float* source) {
  if (workspace_ == nullptr) {
    return source;
  }
  std::byte* const copy = workspace_->copies() + offset_;
  if (reorder_) {
    reorder_.Run({{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, copy}});
  }
  if (rounded_ > 0) {
    auto* const floats = reinterpret_cast<float*>(copy);
    RoundToBf16(reorder_ ? floats : source, floats, rounded_);
  }
  return copy;
}

void* Relayout::Stage(float* target) {
  return workspace_ == nullptr ? static_cast<void*>(target) : workspace_->copies() + offset_;
}

void Relayout::Store(float* target) {
  if (reorder_) {
    reorder_.Run({{DNNL_ARG_FROM, workspace_->copies() + offset_}, {DNNL_ARG_TO, target}});
  }
}

Status FromDnnl(const char* op, const dnnl::error& error) {
  const std::string message = std::string(op) + ": oneDNN says: " + error.what();
  if (error.status == dnnl_unimplemented) {
    return Status::Unsupported(message);
  }
  return Status::InvalidArgument(message);
}

}  // namespace ps::kernels
