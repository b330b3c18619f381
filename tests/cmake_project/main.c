/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/abi/package.h>
#include <stdio.h>

int main(void) {
  if (pto_program_open("none.pto") == NULL) printf("%s\n", pto_last_error());
  return 0;
}
