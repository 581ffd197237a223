import"./c.AFLWHH5M.js";import"./c.L5IBBXPZ.js";
