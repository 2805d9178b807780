// Search on pages opened from disk, where browsers start no worker: it runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.scope = frame.contentWindow
      this.scope.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = frame.contentDocument.createElement("script")
      script.src = url
      this.ready = new Promise(resolve => { script.onload = resolve })
      frame.contentDocument.body.append(script)
    }
    async postMessage(data) {
      await this.ready
      this.scope.dispatchEvent(new MessageEvent("message", { data }))
    }
  }
}
