// SPDX-License-Identifier: Apache-2.0
// Search runs in a worker, which browsers refuse to pages that are opened from disk. There a hidden
// frame runs the worker's script: it has the origin of the page, and messages go as events.
// Material for MkDocs fetches such a script from a network unless a file of this name is there.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script src="${url}"></script>`;
      this.inside = new Promise((loaded) => {
        frame.onload = () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          loaded(inside);
        };
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.inside.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
