// Clicking a heading sorts its table by that column, and again in the other direction.
for (const table of document.querySelectorAll("table")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => heading.querySelector("button").addEventListener("click", () => {
    const order = heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    headings.forEach((each) => each.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", order);
    const key = (row) => row.cells[column].dataset.sort;
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows].sort((a, b) => {
      const [x, y] = [Number(key(a)), Number(key(b))];
      // What is not a number, such as a dash, stays last in both directions.
      if (headings[column].classList.contains("text")) return sign * key(a).localeCompare(key(b));
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return sign * (x - y);
    });
    table.tBodies[0].append(...rows);
  }));
}
