// Search on pages opened from disk, where browsers start no worker: it runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      this.scope = this.frame.contentWindow
      this.scope.postMessage = data => this.onmessage?.({ data })
      const script = this.scope.document.createElement("script")
      this.loaded = new Promise(resolve => { script.onload = resolve })
      script.onerror = event => this.onerror?.(event)
      script.src = url
      this.scope.document.body.append(script)
    }
    async postMessage(data) {
      await this.loaded
      this.scope.dispatchEvent(new MessageEvent("message", { data }))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
