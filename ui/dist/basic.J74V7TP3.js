import"./c.Y62E2AD7.js";import"./c.L5IBBXPZ.js";
