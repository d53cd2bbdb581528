// How a test in JavaScript waits, as wait.py: for a condition, with a deadline. In a page Playwright's waitForFunction does it.
export async function within(seconds, what) {
  for (const end = Date.now() + seconds * 1000; ;) {
    const value = await what();
    if (value || Date.now() >= end) return value;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

// Until the page is painted as it is now: what follows a change of its size or colours is drawn, and moves no more.
export async function drawn(page) {
  await page.evaluate(async () => {
    const frame = () => new Promise(requestAnimationFrame);
    await frame();
    await frame();
    await Promise.allSettled(document.getAnimations().map((a) => a.finished));
  });
}
