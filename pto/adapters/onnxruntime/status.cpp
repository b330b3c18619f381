// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/onnxruntime/status.hpp"

#include <cstring>
#include <string>

#include "pto/base/error.hpp"

namespace pto::ort {

const void* const* api::tables[2] = {};

namespace {

// Checks that a status gives back the text with which it was made.
void self_check(const char* version) {
  constexpr const char* kText = "pto checks the interface";
  Status* status = api::CreateStatus(kFail, kText);
  const bool same = status && std::strcmp(api::GetErrorMessage(status), kText) == 0;
  if (status) api::ReleaseStatus(status);
  if (same) return;
  fail({std::string("ONNX Runtime ") + version + " has another C interface than expected",
        "a status did not give back its text", "use a release from 1.24 on"},
       ErrorKind::Runtime);
}

}  // namespace

void connect(const ApiBase* base) {
  const void* const* table = base->GetApi(kVersion);
  if (!table) {
    fail({std::string("ONNX Runtime ") + base->GetVersionString() + " is too old for this adapter",
          "it needs level " + std::to_string(kVersion) + " of the C interface",
          "install onnxruntime 1.24 or later"},
         ErrorKind::Runtime);
  }
  api::tables[api::kRuntime] = table;
  self_check(base->GetVersionString());
  api::tables[api::kProvider] = api::GetEpApi();
}

void check(Status* status) {
  if (!status) return;
  const std::string text = api::GetErrorMessage(status);
  api::ReleaseStatus(status);
  fail({"ONNX Runtime refused: " + text, "one of its functions failed inside the pto adapter",
        "correct what ONNX Runtime names above, or report its text as a defect of the adapter"},
       ErrorKind::Runtime);
}

bool succeeded(Status* status) {
  if (!status) return true;
  api::ReleaseStatus(status);
  return false;
}

}  // namespace pto::ort
