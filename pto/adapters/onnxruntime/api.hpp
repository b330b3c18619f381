// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime's C interface, as far as the adapter uses it, declared by hand.
//
//     void* data = nullptr;
//     check(api::GetTensorMutableData(value, &data));
//
// The wheel ships no headers. Its tables of functions are append-only, so a slot keeps its meaning
// in every later release; kVersion is the level that we ask for and name in our structs.
// self_check() and every test run check slots and layouts. Source: the documentation of the C API
// and its public header at that level.
// Invariant: connect() has returned before anything else here is used. Whoever receives a Status
// that is not null owns it.
// Thread safety: one thread at a time calls connect(); the functions are ONNX Runtime's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pto::ort {

inline constexpr uint32_t kVersion = 24;

struct Status;
struct Value;
struct ValueInfo;
struct TypeInfo;
struct TensorInfo;
struct Graph;
struct Node;
struct Attribute;
struct Domain;
struct KernelInfo;
struct KernelContext;
struct ShapeContext;
struct SessionOptions;
struct HardwareDevice;
struct ProviderDevice;
struct KeyValuePairs;
struct GraphSupport;
struct Logger;
struct MemoryInfo;
struct Allocator;
struct DataTransfer;
struct ComputeContext;
struct KernelRegistry;
struct KernelDef;
struct KernelDefBuilder;
struct KernelImplementation;
struct CustomOp;
struct FusionOptions;
struct ProviderFactory;

enum ErrorCode : int { kFail = 1, kInvalidArgument = 2, kRuntimeException = 6 };
enum Characteristic : int { kRequired = 0, kOptional = 1, kVariadic = 2 };
enum AttributeType : int {
  kInt = 1,
  kInts = 2,
  kFloat = 3,
  kFloats = 4,
  kString = 5,
  kStrings = 6,
  kGraphAttribute = 7,
  kTensorAttribute = 8
};
inline constexpr int kUndefinedElement = 0;
inline constexpr int kTensorType = 1;  // of GetOnnxTypeFromTypeInfo
inline constexpr int kCpuDevice = 0;   // of HardwareDevice_Type

struct ApiBase {
  const void* const* (*GetApi)(uint32_t version);
  const char* (*GetVersionString)();
};

namespace api {

// The two tables: of the runtime, and of functions for providers.
enum Table { kRuntime, kProvider };
extern const void* const* tables[2];

template <Table Which, int Slot, class Signature>
struct Function;
template <Table Which, int Slot, class R, class... A>
struct Function<Which, Slot, R(A...)> {
  R operator()(A... arguments) const {
    return reinterpret_cast<R (*)(A...)>(const_cast<void*>(tables[Which][Slot]))(arguments...);
  }
};
template <int Slot, class Signature>
inline constexpr Function<kRuntime, Slot, Signature> runtime{};
template <int Slot, class Signature>
inline constexpr Function<kProvider, Slot, Signature> provider{};

using Text = const char*;

inline constexpr auto CreateStatus = runtime<0, Status*(int code, Text message)>;
inline constexpr auto GetErrorMessage = runtime<2, Text(const Status*)>;
inline constexpr auto CreateCustomOpDomain = runtime<26, Status*(Text name, Domain**)>;
inline constexpr auto CustomOpDomain_Add = runtime<27, Status*(Domain*, const CustomOp*)>;
inline constexpr auto AddCustomOpDomain = runtime<28, Status*(SessionOptions*, Domain*)>;
inline constexpr auto GetTensorMutableData = runtime<51, Status*(Value*, void**)>;
inline constexpr auto CastTypeInfoToTensorInfo =
    runtime<55, Status*(const TypeInfo*, const TensorInfo**)>;
inline constexpr auto GetOnnxTypeFromTypeInfo = runtime<56, Status*(const TypeInfo*, int*)>;
inline constexpr auto CreateTensorTypeAndShapeInfo = runtime<57, Status*(TensorInfo**)>;
inline constexpr auto SetTensorElementType = runtime<58, Status*(TensorInfo*, int)>;
inline constexpr auto SetDimensions = runtime<59, Status*(TensorInfo*, const int64_t*, size_t)>;
inline constexpr auto GetTensorElementType = runtime<60, Status*(const TensorInfo*, int*)>;
inline constexpr auto GetDimensionsCount = runtime<61, Status*(const TensorInfo*, size_t*)>;
inline constexpr auto GetDimensions = runtime<62, Status*(const TensorInfo*, int64_t*, size_t)>;
inline constexpr auto GetSymbolicDimensions =
    runtime<63, Status*(const TensorInfo*, Text*, size_t)>;
inline constexpr auto KernelInfoGetAttribute_float =
    runtime<85, Status*(const KernelInfo*, Text name, float*)>;
inline constexpr auto KernelInfoGetAttribute_int64 =
    runtime<86, Status*(const KernelInfo*, Text name, int64_t*)>;
inline constexpr auto KernelInfoGetAttribute_string =
    runtime<87, Status*(const KernelInfo*, Text name, char*, size_t*)>;
inline constexpr auto KernelContext_GetInputCount =
    runtime<88, Status*(const KernelContext*, size_t*)>;
inline constexpr auto KernelContext_GetOutputCount =
    runtime<89, Status*(const KernelContext*, size_t*)>;
inline constexpr auto KernelContext_GetInput =
    runtime<90, Status*(const KernelContext*, size_t, const Value**)>;
inline constexpr auto KernelContext_GetOutput =
    runtime<91, Status*(KernelContext*, size_t, const int64_t*, size_t, Value**)>;
inline constexpr auto ReleaseStatus = runtime<93, void(Status*)>;
inline constexpr auto ReleaseTensorTypeAndShapeInfo = runtime<99, void(TensorInfo*)>;
inline constexpr auto ReleaseCustomOpDomain = runtime<101, void(Domain*)>;
inline constexpr auto KernelInfoGetAttributeArray_float =
    runtime<162, Status*(const KernelInfo*, Text name, float*, size_t*)>;
inline constexpr auto KernelInfoGetAttributeArray_int64 =
    runtime<163, Status*(const KernelInfo*, Text name, int64_t*, size_t*)>;
inline constexpr auto ShapeInferContext_GetInputCount =
    runtime<267, Status*(const ShapeContext*, size_t*)>;
inline constexpr auto ShapeInferContext_GetInputTypeShape =
    runtime<268, Status*(const ShapeContext*, size_t, TensorInfo**)>;
inline constexpr auto ShapeInferContext_GetAttribute =
    runtime<269, Status*(const ShapeContext*, Text name, const Attribute**)>;
inline constexpr auto ShapeInferContext_SetOutputTypeShape =
    runtime<270, Status*(const ShapeContext*, size_t, const TensorInfo*)>;
inline constexpr auto SetSymbolicDimensions = runtime<271, Status*(TensorInfo*, Text*, size_t)>;
inline constexpr auto ReadOpAttr =
    runtime<272, Status*(const Attribute*, int type, void*, size_t bytes, size_t* needed)>;
inline constexpr auto KernelContext_ParallelFor =
    runtime<274, Status*(const KernelContext*, void (*)(void*, size_t), size_t total,
                         size_t batches, void* user)>;
inline constexpr auto GetValueInfoName = runtime<289, Status*(const ValueInfo*, Text*)>;
inline constexpr auto GetValueInfoTypeInfo =
    runtime<290, Status*(const ValueInfo*, const TypeInfo**)>;
inline constexpr auto HardwareDevice_Type = runtime<307, int(const HardwareDevice*)>;
inline constexpr auto GetEpApi = runtime<317, const void* const*()>;
inline constexpr auto ValueInfo_GetInitializerValue =
    runtime<326, Status*(const ValueInfo*, const Value**)>;
inline constexpr auto ValueInfo_IsGraphOutput = runtime<330, Status*(const ValueInfo*, bool*)>;
inline constexpr auto ValueInfo_IsConstantInitializer =
    runtime<331, Status*(const ValueInfo*, bool*)>;
inline constexpr auto Graph_GetNumNodes = runtime<344, Status*(const Graph*, size_t*)>;
inline constexpr auto Graph_GetNodes = runtime<345, Status*(const Graph*, const Node**, size_t)>;
inline constexpr auto Graph_GetParentNode = runtime<346, Status*(const Graph*, const Node**)>;
inline constexpr auto Node_GetName = runtime<349, Status*(const Node*, Text*)>;
inline constexpr auto Node_GetOperatorType = runtime<350, Status*(const Node*, Text*)>;
inline constexpr auto Node_GetDomain = runtime<351, Status*(const Node*, Text*)>;
inline constexpr auto Node_GetSinceVersion = runtime<352, Status*(const Node*, int*)>;
inline constexpr auto Node_GetNumInputs = runtime<353, Status*(const Node*, size_t*)>;
inline constexpr auto Node_GetInputs =
    runtime<354, Status*(const Node*, const ValueInfo**, size_t)>;
inline constexpr auto Node_GetNumOutputs = runtime<355, Status*(const Node*, size_t*)>;
inline constexpr auto Node_GetOutputs =
    runtime<356, Status*(const Node*, const ValueInfo**, size_t)>;
inline constexpr auto Node_GetNumImplicitInputs = runtime<357, Status*(const Node*, size_t*)>;
inline constexpr auto Node_GetImplicitInputs =
    runtime<358, Status*(const Node*, const ValueInfo**, size_t)>;
inline constexpr auto Node_GetNumAttributes = runtime<359, Status*(const Node*, size_t*)>;
inline constexpr auto Node_GetAttributes =
    runtime<360, Status*(const Node*, const Attribute**, size_t)>;
inline constexpr auto OpAttr_GetType = runtime<363, Status*(const Attribute*, int*)>;
inline constexpr auto OpAttr_GetName = runtime<364, Status*(const Attribute*, Text*)>;
inline constexpr auto Node_GetEpName = runtime<368, Status*(const Node*, Text*)>;
inline constexpr auto GetTensorData = runtime<378, Status*(const Value*, const void**)>;
inline constexpr auto TensorTypeAndShape_HasShape = runtime<390, bool(const TensorInfo*)>;
// The value owns the sizes: no copy, nothing to release.
inline constexpr auto GetTensorElementTypeAndShapeDataReference =
    runtime<414, Status*(const Value*, int* type, const int64_t** sizes, size_t* rank)>;

inline constexpr auto CreateEpDevice =
    provider<0, Status*(ProviderFactory*, const HardwareDevice*, const KeyValuePairs*,
                        const KeyValuePairs*, ProviderDevice**)>;
inline constexpr auto EpGraphSupportInfo_AddNodesToFuse =
    provider<2, Status*(GraphSupport*, const Node* const*, size_t, const FusionOptions*)>;

using CreateKernel = Status*(void* state, const KernelInfo*, KernelImplementation**);

inline constexpr auto EpGraphSupportInfo_AddSingleNode =
    provider<3, Status*(GraphSupport*, const Node*)>;
inline constexpr auto CreateKernelRegistry = provider<18, Status*(KernelRegistry**)>;
inline constexpr auto KernelRegistry_AddKernel =
    provider<20, Status*(KernelRegistry*, const KernelDef*, CreateKernel*, void* state)>;
inline constexpr auto CreateKernelDefBuilder = provider<21, Status*(KernelDefBuilder**)>;
inline constexpr auto ReleaseKernelDefBuilder = provider<22, void(KernelDefBuilder*)>;
inline constexpr auto KernelDefBuilder_SetOperatorType =
    provider<23, Status*(KernelDefBuilder*, Text)>;
inline constexpr auto KernelDefBuilder_SetDomain = provider<24, Status*(KernelDefBuilder*, Text)>;
inline constexpr auto KernelDefBuilder_SetSinceVersion =
    provider<25, Status*(KernelDefBuilder*, int first, int last)>;
inline constexpr auto KernelDefBuilder_SetExecutionProvider =
    provider<26, Status*(KernelDefBuilder*, Text)>;
inline constexpr auto KernelDefBuilder_AddInputOutputAliases =
    provider<30, Status*(KernelDefBuilder*, const int* inputs, const int* outputs, size_t)>;
inline constexpr auto KernelDefBuilder_Build =
    provider<32, Status*(KernelDefBuilder*, KernelDef**)>;
inline constexpr auto ReleaseKernelDef = provider<33, void(KernelDef*)>;

}  // namespace api

// Structs that we implement: ONNX Runtime calls their functions and passes them as `self`. An unset
// member is null; versions are kVersion.

struct CustomOp {
  uint32_t version = kVersion;
  void* (*CreateKernel)(const CustomOp*, const void*, const KernelInfo*) = nullptr;
  const char* (*GetName)(const CustomOp*) = nullptr;
  const char* (*GetExecutionProviderType)(const CustomOp*) = nullptr;
  int (*GetInputType)(const CustomOp*, size_t) = nullptr;
  size_t (*GetInputTypeCount)(const CustomOp*) = nullptr;
  int (*GetOutputType)(const CustomOp*, size_t) = nullptr;
  size_t (*GetOutputTypeCount)(const CustomOp*) = nullptr;
  void (*KernelCompute)(void* kernel, KernelContext*) = nullptr;
  void (*KernelDestroy)(void* kernel) = nullptr;
  Characteristic (*GetInputCharacteristic)(const CustomOp*, size_t) = nullptr;
  Characteristic (*GetOutputCharacteristic)(const CustomOp*, size_t) = nullptr;
  int (*GetInputMemoryType)(const CustomOp*, size_t) = nullptr;
  int (*GetVariadicInputMinArity)(const CustomOp*) = nullptr;
  int (*GetVariadicInputHomogeneity)(const CustomOp*) = nullptr;
  int (*GetVariadicOutputMinArity)(const CustomOp*) = nullptr;
  int (*GetVariadicOutputHomogeneity)(const CustomOp*) = nullptr;
  Status* (*CreateKernelV2)(const CustomOp*, const void*, const KernelInfo*, void**) = nullptr;
  Status* (*KernelComputeV2)(void* kernel, KernelContext*) = nullptr;
  Status* (*InferOutputShapeFn)(const CustomOp*, ShapeContext*) = nullptr;
  int (*GetStartVersion)(const CustomOp*) = nullptr;
  int (*GetEndVersion)(const CustomOp*) = nullptr;
  const void* in_place_and_alias[4] = {};
};
static_assert(sizeof(CustomOp) == 208 && offsetof(CustomOp, KernelDestroy) == 72 &&
              offsetof(CustomOp, CreateKernelV2) == 136 &&
              offsetof(CustomOp, GetStartVersion) == 160);

struct ComputeInfo {
  uint32_t version = kVersion;
  Status* (*CreateState)(ComputeInfo*, ComputeContext*, void** state) = nullptr;
  Status* (*Compute)(ComputeInfo*, void* state, KernelContext*) = nullptr;
  void (*ReleaseState)(ComputeInfo*, void* state) = nullptr;
};
static_assert(sizeof(ComputeInfo) == 32);

struct KernelImplementation {
  uint32_t version = kVersion;
  uint32_t flags = 0;
  Status* (*Compute)(KernelImplementation*, KernelContext*) = nullptr;
  void (*Release)(KernelImplementation*) = nullptr;
  const void* packed_weights[2] = {};
};
static_assert(sizeof(KernelImplementation) == 40);

struct FusionOptions {
  uint32_t version = kVersion;
  bool drop_constant_initializers = false;
};

struct Provider {
  uint32_t version = kVersion;
  const char* (*GetName)(const Provider*) = nullptr;
  Status* (*GetCapability)(Provider*, const Graph*, GraphSupport*) = nullptr;
  Status* (*Compile)(Provider*, const Graph**, const Node** fused, size_t count, ComputeInfo**,
                     Node** contexts) = nullptr;
  void (*ReleaseNodeComputeInfos)(Provider*, ComputeInfo**, size_t count) = nullptr;
  const void* layouts_and_streams[8] = {};
  Status* (*GetKernelRegistry)(Provider*, const KernelRegistry**) = nullptr;
  const void* unused[12] = {};
};
static_assert(sizeof(Provider) == 208 && offsetof(Provider, GetKernelRegistry) == 104);

struct ProviderFactory {
  uint32_t version = kVersion;
  const char* (*GetName)(const ProviderFactory*) = nullptr;
  const char* (*GetVendor)(const ProviderFactory*) = nullptr;
  Status* (*GetSupportedDevices)(ProviderFactory*, const HardwareDevice* const*, size_t count,
                                 ProviderDevice**, size_t max, size_t* found) = nullptr;
  Status* (*CreateEp)(ProviderFactory*, const HardwareDevice* const*, const KeyValuePairs* const*,
                      size_t count, const SessionOptions*, const Logger*, Provider**) = nullptr;
  void (*ReleaseEp)(ProviderFactory*, Provider*) = nullptr;
  uint32_t (*GetVendorId)(const ProviderFactory*) = nullptr;
  const char* (*GetVersion)(const ProviderFactory*) = nullptr;
  const void* validate = nullptr;
  Status* (*CreateAllocator)(ProviderFactory*, const MemoryInfo*, const KeyValuePairs*,
                             Allocator**) = nullptr;
  void (*ReleaseAllocator)(ProviderFactory*, Allocator*) = nullptr;
  Status* (*CreateDataTransfer)(ProviderFactory*, DataTransfer**) = nullptr;
  bool (*IsStreamAware)(const ProviderFactory*) = nullptr;
  const void* streams_and_resources[3] = {};
  Status* (*GetNumCustomOpDomains)(ProviderFactory*, size_t*) = nullptr;
  Status* (*GetCustomOpDomains)(ProviderFactory*, Domain**, size_t) = nullptr;
  const void* unused[3] = {};
};
static_assert(sizeof(ProviderFactory) == 168 &&
              offsetof(ProviderFactory, GetNumCustomOpDomains) == 128);

}  // namespace pto::ort
